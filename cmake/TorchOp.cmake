# The op of torch, for every torch from 2.10 on: it is built against headers of any such wheel, and
# links none. At run time the libtorch_cpu.so that the process has loaded gives its symbols.
if(NOT EPIFUSE_TORCH_INCLUDE)
  return()
endif()

# A library of the same name with the functions that the op uses, to link against.
set(torch_functions "${PROJECT_SOURCE_DIR}/python/native/torch_functions.txt")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${torch_functions}")
file(STRINGS "${torch_functions}" names REGEX "^[a-z]")
list(TRANSFORM names REPLACE "(.+)" "void \\1() {}\n")
list(JOIN names "" definitions)
file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/generated/torch_stand_in.cpp"
     CONTENT "extern \"C\" {\n${definitions}}\n")
add_library(epifuse_torch_stand_in SHARED "${PROJECT_BINARY_DIR}/generated/torch_stand_in.cpp")
set_target_properties(epifuse_torch_stand_in PROPERTIES OUTPUT_NAME torch_cpu
                      LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/generated")

add_library(epifuse_torch_op SHARED python/native/torch_op.cpp)
target_include_directories(epifuse_torch_op SYSTEM PRIVATE "${EPIFUSE_TORCH_INCLUDE}")
target_include_directories(epifuse_torch_op PRIVATE "${PROJECT_SOURCE_DIR}/include")
target_compile_definitions(epifuse_torch_op PRIVATE TORCH_TARGET_VERSION=0x020a000000000000
                           EPIFUSE_C_LIBRARY="$<TARGET_SONAME_FILE_NAME:epifuse_c>")
# Its messages name files: without the folders of the machine that builds it.
target_compile_options(epifuse_torch_op PRIVATE
  "-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=" "-ffile-prefix-map=${EPIFUSE_TORCH_INCLUDE}/=")
add_dependencies(epifuse_torch_op epifuse_c)  # which it loads when it runs
target_link_libraries(epifuse_torch_op PRIVATE epifuse_flags epifuse_torch_stand_in
                      ${CMAKE_DL_LIBS})
target_link_options(epifuse_torch_op PRIVATE LINKER:--no-undefined)
set_target_properties(epifuse_torch_op PROPERTIES
  CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
  LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib"
  BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")
