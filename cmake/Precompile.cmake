# Headers that most sources include, compiled once for all targets of one kind: the layers, the
# command line, the tests. Sources still include what they use: the `sanitize` preset precompiles
# nothing.
set(EPIFUSE_COMMON_HEADERS <fmt/format.h> <fmt/ranges.h> <algorithm> <array> <cstdint> <filesystem>
    <functional> <map> <memory> <mutex> <optional> <set> <span> <string> <string_view>
    <unordered_map> <utility> <variant> <vector>)

# The first target of a kind compiles the headers, those after it use them.
function(epifuse_precompile target kind)
  if(NOT EPIFUSE_PRECOMPILE OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  # g++ takes what is inlined from a precompiled system header for our own code, and warns of it.
  target_compile_options(${target} PRIVATE -Wno-stringop-overflow -Wno-stringop-overread
                                           -Wno-array-bounds)
  get_property(first GLOBAL PROPERTY EPIFUSE_PRECOMPILED_${kind})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    set_property(GLOBAL PROPERTY EPIFUSE_PRECOMPILED_${kind} ${target})
    target_precompile_headers(${target} PRIVATE ${EPIFUSE_COMMON_HEADERS} ${ARGN})
  endif()
endfunction()
