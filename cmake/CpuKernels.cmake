# The CPU backend: its loops are one source compiled for several instruction sets, and it shares the
# thread pool of OpenMP with oneDNN.
set(cpu_folder "${PROJECT_SOURCE_DIR}/src/backends/cpu")
set(loop_flags -O3 -fno-math-errno -fno-trapping-math -fopenmp-simd)
function(epifuse_strips isa)
  set_source_files_properties("${cpu_folder}/strips_${isa}.cpp" PROPERTIES
    COMPILE_OPTIONS "${loop_flags};${ARGN}" SKIP_PRECOMPILE_HEADERS ON
    OBJECT_DEPENDS "${cpu_folder}/strips_loops.inc;${cpu_folder}/narrow_floats.inc")
endfunction()

epifuse_strips(baseline)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  epifuse_strips(avx2 -mavx2 -mfma -mf16c)
  epifuse_strips(avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma
                 -mprefer-vector-width=512)
else()
  set_source_files_properties("${cpu_folder}/strips_avx2.cpp" "${cpu_folder}/strips_avx512.cpp"
                              PROPERTIES HEADER_FILE_ONLY ON)
endif()

set_source_files_properties("${cpu_folder}/threads.cpp" PROPERTIES COMPILE_OPTIONS -fopenmp
                            SKIP_PRECOMPILE_HEADERS ON)
list(APPEND EPIFUSE_LINK_LIBRARIES gomp m)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND EPIFUSE_LINK_LIBRARIES mvec)  # glibc's vector maths
endif()
