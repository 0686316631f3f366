# What the Python package carries beside its Python (component `python`): the libraries, the command
# line, and the shared libraries of this machine that another may not have.
set(wheel_libraries epifuse_c)
if(TARGET epifuse_torch_op)
  list(APPEND wheel_libraries epifuse_torch_op)
endif()
set_target_properties(${wheel_libraries} PROPERTIES INSTALL_RPATH "$ORIGIN")
set(wheel_targets ${wheel_libraries})
if(TARGET epifuse_cli)
  list(APPEND wheel_targets epifuse_cli)
  install(TARGETS epifuse_cli RUNTIME DESTINATION bin COMPONENT python EXCLUDE_FROM_ALL)
endif()
# DT_RPATH, which also serves the libraries of our libraries; DT_RUNPATH would not.
foreach(target ${wheel_targets})
  target_link_options(${target} PRIVATE LINKER:--disable-new-dtags)
endforeach()
add_custom_target(epifuse_wheel DEPENDS ${wheel_targets})

# Each library once, by the name it is opened by: a wheel has no links.
set(files "")
set(names "")
foreach(target ${wheel_libraries})
  list(APPEND files "$<TARGET_FILE:${target}>")
  list(APPEND names "$<TARGET_LINKER_FILE_NAME:${target}>")
endforeach()
install(CODE "
  set(files \"${files}\")
  set(names \"${names}\")
  set(strip \"${CMAKE_STRIP}\")" COMPONENT python EXCLUDE_FROM_ALL)
install(CODE [[
  file(GET_RUNTIME_DEPENDENCIES LIBRARIES ${files} RESOLVED_DEPENDENCIES_VAR others
       PRE_EXCLUDE_REGEXES "^ld-" "^lib(c|m|mvec|dl|rt|pthread|stdc\\+\\+|gcc_s)\\.so"
                           "^lib(torch|c10|epifuse)")
  foreach(path ${others})
    get_filename_component(name "${path}" NAME)
    list(APPEND files "${path}")
    list(APPEND names "${name}")
  endforeach()
  file(MAKE_DIRECTORY "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/lib")
  foreach(path name IN ZIP_LISTS files names)
    set(copy "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/lib/${name}")
    message(STATUS "Installing: ${copy} (${path})")
    file(COPY_FILE "${path}" "${copy}")
    if(CMAKE_INSTALL_DO_STRIP)
      execute_process(COMMAND "${strip}" --strip-unneeded "${copy}" COMMAND_ERROR_IS_FATAL ANY)
    endif()
  endforeach()]] COMPONENT python EXCLUDE_FROM_ALL)
