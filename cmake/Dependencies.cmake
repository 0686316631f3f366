# Libraries of the Debian archive, and the two wheels that `./dev` unpacks into .deps/.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(dnnl REQUIRED)
find_package(nlohmann_json REQUIRED)
if(EPIFUSE_BUILD_CLI OR EPIFUSE_BUILD_TESTS)
  find_package(CLI11 REQUIRED)
endif()
if(EPIFUSE_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
find_package(Python3 REQUIRED COMPONENTS Interpreter)

set(EPIFUSE_CUTLASS_INCLUDE
    "${PROJECT_SOURCE_DIR}/.deps/nvidia-cutlass-4.2.0.0/cutlass_library/source/include"
    CACHE PATH "Include folder of CUTLASS 4.2.0 (for the embedded device headers)")
set(EPIFUSE_NVRTC_HINT "${PROJECT_SOURCE_DIR}/.deps/nvidia-cuda-nvrtc-13.0.88/nvidia/cu13/lib"
    CACHE PATH "Folder of a libnvrtc that binaries of this build tree may use")
if(NOT EXISTS "${EPIFUSE_CUTLASS_INCLUDE}/cute/arch/mma_sm90_gmma.hpp")
  message(FATAL_ERROR "CUTLASS headers not found in ${EPIFUSE_CUTLASS_INCLUDE}: run ./dev build, "
                      "or set EPIFUSE_CUTLASS_INCLUDE")
endif()
