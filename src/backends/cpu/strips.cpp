// Which of the compiled strip tables this processor can run.
#include "backends/cpu/strips.h"

namespace epifuse::cpu {

extern const StripKernels baseline;
#ifdef __x86_64__
extern const StripKernels avx2, avx512;
#endif

StripTables available_strips() {
  StripTables found{};
#ifdef __x86_64__
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (has_avx512) found.tables[found.count++] = &avx512;
  if (has_avx2) found.tables[found.count++] = &avx2;
#endif
  found.tables[found.count++] = &baseline;
  return found;
}

}  // namespace epifuse::cpu
