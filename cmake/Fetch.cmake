# Headers out of wheels, for builds that may fetch them: those of pip, and `./dev test python`.
option(EPIFUSE_FETCH "Fetch the headers that are missing into .deps/" OFF)

# The files of `wheel` into .deps/NAME-VERSION, as `./dev` does. Whoever needs them says it failed.
function(epifuse_fetch wheel)
  string(REPLACE "==" "-" folder "${PROJECT_SOURCE_DIR}/.deps/${wheel}")
  if(EPIFUSE_FETCH AND NOT EXISTS "${folder}")
    message(STATUS "Fetching ${wheel}")
    execute_process(COMMAND "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/cmake/fetch_wheel.py"
                            "${wheel}" "${folder}" ${ARGN})
  endif()
endfunction()

# The headers of the PyTorch that is installed where this runs, seen past pip's build isolation.
function(epifuse_installed_torch result)
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -E env --unset=PYTHONPATH "${Python3_EXECUTABLE}" -c
            "import importlib.util as u; print(*u.find_spec('torch').submodule_search_locations)"
    OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(${result} "${folder}/include" PARENT_SCOPE)
endfunction()

# Sets EPIFUSE_TORCH_INCLUDE: as given, else one version for all builds, else what is installed.
# The op is built against PyTorch's stable ABI: it does not tie epifuse to the version of the headers.
function(epifuse_torch_headers)
  set(EPIFUSE_TORCH_INCLUDE "" CACHE PATH "torch/include of PyTorch, for its op; empty: no op")
  set(header torch/csrc/stable/library.h)
  set(include "${EPIFUSE_TORCH_INCLUDE}")
  if(NOT include)
    set(kept torch/include/torch)
    epifuse_fetch(torch==2.13.0 ${kept}/csrc/stable/ ${kept}/csrc/inductor/aoti_torch/
                  ${kept}/headeronly/)
    set(include "${PROJECT_SOURCE_DIR}/.deps/torch-2.13.0/torch/include")
    if(EPIFUSE_FETCH AND NOT EXISTS "${include}/${header}")
      epifuse_installed_torch(include)
    endif()
  endif()
  if(EXISTS "${include}/${header}")
    set(EPIFUSE_TORCH_INCLUDE "${include}" PARENT_SCOPE)
  elseif(EPIFUSE_TORCH_INCLUDE OR EPIFUSE_FETCH)
    set(place "${EPIFUSE_TORCH_INCLUDE}")
    if(NOT place)
      set(place ".deps/ and the torch of ${Python3_EXECUTABLE}")
    endif()
    message(FATAL_ERROR "PyTorch's headers (${header}) not found in ${place}: install torch 2.10 or "
                        "newer, or set EPIFUSE_TORCH_INCLUDE to the torch/include of one")
  endif()
endfunction()
