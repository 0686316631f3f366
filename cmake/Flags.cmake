# Compiler flags of every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# Warnings are errors of the compilers of Debian 12 and 13, by which there are none; others may warn.
set(epifuse_compiler "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
set(epifuse_errors "")
if(epifuse_compiler MATCHES "^(GNU 12|GNU 14|Clang 14|Clang 19)[.]")
  set(epifuse_errors -Werror)
endif()
# -Wno-restrict: g++ 12 warns wrongly about `"text" + std::string` (GCC bug 105651).
add_library(epifuse_flags INTERFACE)
target_compile_options(epifuse_flags INTERFACE -Wall -Wextra -Wpedantic ${epifuse_errors} -Wshadow
                       -Wno-missing-field-initializers -ffp-contract=off
                       $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
if(EPIFUSE_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
endif()
