# The sources that see the rows of ops.def, compiled with the example of docs/adding-an-op.md as one
# more, for tests/added_op. Here, as properties of sources hold in one directory only.
set(added_op_folder "${PROJECT_BINARY_DIR}/generated/added_op")
set(added_op_script "${PROJECT_SOURCE_DIR}/tests/added_op/add_row.py")
set(added_op_inputs "${PROJECT_SOURCE_DIR}/src/ir/ops.def"
    "${PROJECT_SOURCE_DIR}/docs/adding-an-op.md")
add_custom_command(
  OUTPUT "${added_op_folder}/ir/ops.def" "${added_op_folder}/added_op.h"
  COMMAND Python3::Interpreter "${added_op_script}" ${added_op_inputs} "${added_op_folder}"
  DEPENDS "${added_op_script}" ${added_op_inputs}
  COMMENT "Adding the example op"
  VERBATIM)
add_custom_target(epifuse_added_op_row DEPENDS "${added_op_folder}/ir/ops.def")

file(GLOB added_op_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/backends/cpu/*.cpp")
add_library(epifuse_added_op OBJECT ${added_op_sources} src/ir/op.cpp)
add_dependencies(epifuse_added_op epifuse_added_op_row)
target_include_directories(epifuse_added_op BEFORE PRIVATE "${added_op_folder}")
target_include_directories(epifuse_added_op PRIVATE "${PROJECT_SOURCE_DIR}/include"
                           "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}")
target_link_libraries(epifuse_added_op PRIVATE epifuse_flags epifuse_fmt)
target_compile_options(epifuse_added_op PRIVATE -O1)  # run by one test
epifuse_precompile(epifuse_added_op added_op)  # which are compiled with -O1, too
