// The corpus on the CPU backend, against the float64 reference.
#include "tests/common/corpus_run.h"

int main(int argc, char** argv) {
  epifuse::testing::HostMemory memory;
  return epifuse::testing::run_tier(epifuse::Target::cpu(), memory, argc, argv);
}
