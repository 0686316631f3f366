# Libraries of the Debian archive, and the wheels that `./dev` unpacks into .deps/.
set(epifuse_missing "")  # Debian packages

# find_package(package ...); what is missing is said of all packages at once, by Debian's names.
macro(epifuse_find package debian)
  find_package(${package} ${ARGN} QUIET)
  if(NOT ${package}_FOUND)
    list(APPEND epifuse_missing ${debian})
  endif()
endmacro()

find_package(Threads REQUIRED)
epifuse_find(fmt libfmt-dev)
# The version is checked again when the library is loaded (src/backends/cpu/matmul.cpp).
epifuse_find(dnnl "libdnnl-dev;ocl-icd-opencl-dev")
epifuse_find(nlohmann_json nlohmann-json3-dev)
if(EPIFUSE_BUILD_CLI OR EPIFUSE_BUILD_TESTS)
  epifuse_find(CLI11 libcli11-dev)
endif()
if(EPIFUSE_BUILD_TESTS)
  epifuse_find(GTest libgtest-dev)
endif()
epifuse_find(Python3 python3 COMPONENTS Interpreter)
if(epifuse_missing)
  list(JOIN epifuse_missing " " epifuse_missing)
  message(FATAL_ERROR "Missing libraries. On Debian and Ubuntu, as root:\n"
                      "  apt-get install ${epifuse_missing}\nThen configure again.")
endif()
# find_package takes no range of two major versions.
if(dnnl_VERSION VERSION_LESS 2.6 OR dnnl_VERSION VERSION_GREATER_EQUAL 4)
  message(FATAL_ERROR "Expected oneDNN 2.6 or newer, 3.x at most; found ${dnnl_VERSION}.")
endif()
# {fmt} 9 is compiled once (src/base/fmt_library.cpp): header-only, it is two thirds of the work on
# a file. Of other versions the parts to instantiate are others.
add_library(epifuse_fmt INTERFACE)
if(fmt_VERSION VERSION_GREATER_EQUAL 9 AND fmt_VERSION VERSION_LESS 10)
  target_include_directories(epifuse_fmt SYSTEM INTERFACE
    $<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>)
else()
  target_link_libraries(epifuse_fmt INTERFACE fmt::fmt-header-only)
endif()

include(cmake/Fetch.cmake)

epifuse_fetch(nvidia-cutlass==4.2.0.0)
set(EPIFUSE_CUTLASS_INCLUDE
    "${PROJECT_SOURCE_DIR}/.deps/nvidia-cutlass-4.2.0.0/cutlass_library/source/include"
    CACHE PATH "Include folder of CUTLASS 4.2.0 (for the embedded device headers)")
set(EPIFUSE_NVRTC_HINT "${PROJECT_SOURCE_DIR}/.deps/nvidia-cuda-nvrtc-13.0.88/nvidia/cu13/lib"
    CACHE PATH "Folder of a libnvrtc that binaries of this build tree may use")
if(NOT EXISTS "${EPIFUSE_CUTLASS_INCLUDE}/cute/arch/mma.hpp")
  message(FATAL_ERROR "CUTLASS headers not found in ${EPIFUSE_CUTLASS_INCLUDE}: run ./dev build, "
                      "or set EPIFUSE_CUTLASS_INCLUDE")
endif()
epifuse_torch_headers()
