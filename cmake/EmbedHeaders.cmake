# The device headers as text inside the library: our own, the shims, and those of CUTLASS that each
# kernels/FAMILY/cutlass_headers.txt names. Generated into the build tree, never into the repository.
file(GLOB_RECURSE embed_own CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/kernels/*")
file(GLOB embed_lists CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/kernels/*/cutlass_headers.txt")
set(embed_cutlass "")
foreach(embed_list ${embed_lists})
  file(STRINGS "${embed_list}" embed_rows REGEX "^[a-z]")
  foreach(row ${embed_rows})
    string(REGEX REPLACE "^(columns .*|head +[^ ]+ +|slice +[^ ]+ +[^ ]+ +)" "" paths "${row}")
    separate_arguments(paths)
    list(TRANSFORM paths PREPEND "${EPIFUSE_CUTLASS_INCLUDE}/")
    list(APPEND embed_cutlass ${paths})
  endforeach()
endforeach()
list(REMOVE_DUPLICATES embed_cutlass)

set(embed_output "${PROJECT_BINARY_DIR}/generated/embedded_headers.cpp")
add_custom_command(
  OUTPUT "${embed_output}"
  COMMAND ${CMAKE_COMMAND} -E make_directory "${PROJECT_BINARY_DIR}/generated"
  COMMAND Python3::Interpreter "${PROJECT_SOURCE_DIR}/cmake/embed_headers.py"
          --kernels "${PROJECT_SOURCE_DIR}/kernels" --cutlass "${EPIFUSE_CUTLASS_INCLUDE}"
          --output "${embed_output}"
  DEPENDS "${PROJECT_SOURCE_DIR}/cmake/embed_headers.py" ${embed_own} ${embed_cutlass}
  COMMENT "Embedding the device headers"
  VERBATIM)

if(TARGET epifuse_jit)
  target_sources(epifuse_jit PRIVATE "${embed_output}")
  target_compile_definitions(epifuse_jit PRIVATE EPIFUSE_VERSION="${PROJECT_VERSION}")
endif()

# Binaries find NVRTC beside themselves: links, so that no path of this machine is in a binary.
file(GLOB nvrtc_files "${EPIFUSE_NVRTC_HINT}/libnvrtc*.so.*")
foreach(folder bin lib tests tests/added_op tests/cpu tests/fuzz tests/gpu tests/rtc tests/text bench)
  file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/${folder}")
  foreach(nvrtc_file ${nvrtc_files})
    get_filename_component(nvrtc_name "${nvrtc_file}" NAME)
    file(CREATE_LINK "${nvrtc_file}" "${PROJECT_BINARY_DIR}/${folder}/${nvrtc_name}" SYMBOLIC)
  endforeach()
endforeach()
