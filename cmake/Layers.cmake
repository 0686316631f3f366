# A layer is an object library; a binary takes the layers it needs, in order.
set(EPIFUSE_LAYERS "")
set_property(GLOBAL PROPERTY EPIFUSE_LAYERS "")

function(epifuse_layer name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${name}/*.cpp")
  if(NOT sources)
    return()
  endif()
  add_library(epifuse_${name} OBJECT ${sources})
  target_include_directories(epifuse_${name} PUBLIC "${PROJECT_SOURCE_DIR}/include"
                             PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}")
  target_link_libraries(epifuse_${name} PRIVATE epifuse_flags epifuse_fmt)
  epifuse_precompile(epifuse_${name} layers)
  set_property(GLOBAL APPEND PROPERTY EPIFUSE_LAYERS ${name})
endfunction()

# The objects of all layers up to `last`, for unit tests of one layer.
function(epifuse_objects_up_to last out)
  get_property(layers GLOBAL PROPERTY EPIFUSE_LAYERS)
  set(objects "")
  foreach(layer ${layers})
    list(APPEND objects $<TARGET_OBJECTS:epifuse_${layer}>)
    if(layer STREQUAL last)
      break()
    endif()
  endforeach()
  set(${out} ${objects} PARENT_SCOPE)
endfunction()

# What a binary with our objects links, beside them.
set(EPIFUSE_LINK_LIBRARIES Threads::Threads ${CMAKE_DL_LIBS} DNNL::dnnl)

function(epifuse_library)
  epifuse_objects_up_to(capi objects)
  add_library(epifuse ${objects})
  add_library(epifuse::epifuse ALIAS epifuse)
  target_include_directories(epifuse PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(epifuse PUBLIC cxx_std_20)
  target_link_libraries(epifuse PRIVATE ${EPIFUSE_LINK_LIBRARIES})
endfunction()

# The C interface as a shared library, which exports nothing else.
function(epifuse_c_library)
  epifuse_objects_up_to(capi objects)
  add_library(epifuse_c SHARED ${objects})
  set(exports "${PROJECT_SOURCE_DIR}/cmake/epifuse_c.map")
  set_target_properties(epifuse_c PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib" LINK_DEPENDS "${exports}"
    BUILD_WITH_INSTALL_RPATH ON)  # CMake would pad it with empty ones, which mean "here"
  target_include_directories(epifuse_c PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(epifuse_c PRIVATE ${EPIFUSE_LINK_LIBRARIES})
  target_link_options(epifuse_c PRIVATE "LINKER:--version-script=${exports}")
  if(NOT EPIFUSE_SANITIZE AND NOT EPIFUSE_FUZZ)  # their run time is the executable's
    target_link_options(epifuse_c PRIVATE LINKER:--no-undefined)
  endif()
endfunction()
