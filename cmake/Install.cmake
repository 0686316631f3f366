# Install rules of the libraries, their headers, and a package for find_package(epifuse).
include(CMakePackageConfigHelpers)

install(TARGETS epifuse epifuse_c EXPORT epifuse_targets)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/epifuse" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
set(epifuse_package "${CMAKE_INSTALL_LIBDIR}/cmake/epifuse")
install(EXPORT epifuse_targets NAMESPACE epifuse:: DESTINATION "${epifuse_package}")
configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/epifuse-config.cmake.in"
  "${PROJECT_BINARY_DIR}/epifuse-config.cmake" INSTALL_DESTINATION "${epifuse_package}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/epifuse-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/epifuse-config.cmake"
              "${PROJECT_BINARY_DIR}/epifuse-config-version.cmake"
        DESTINATION "${epifuse_package}")
