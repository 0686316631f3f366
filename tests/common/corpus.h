// The corpus of graphs: loading it, making tensors for it, running and checking it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "epifuse/epifuse.h"
#include "tests/common/host_tensor.h"

namespace epifuse::testing {

// One file of tests/corpus, which has a folder a subject. Comment lines of it say how it is run:
//   # sizes: M=1 N=8; M=17 N=200     instead of the rows of sizes.txt
//   # special: nan inf -0            also runs with these sprinkled over the inputs
//   # pad: 8                         row strides are longer than the rows by this
//   # margin: 1                     tensors start so many elements off their memory's alignment
//   # column_major: y z             these outputs are bound column-major
//   # targets: cpu                   runs on the CPU only
struct CorpusCase {
  std::string name, text;
  std::vector<Sizes> sizes;
  std::vector<Sizes> empty_sizes;  // for the CPU only
  std::vector<double> special;
  std::int64_t pad = 0, margin = 0;
  std::set<std::string> column_major;
  bool cpu_only = false;
};
// All files of the folder and its subfolders, by name. `filter` keeps those whose name contains it.
// Names are unique, whatever the folder; std::runtime_error otherwise.
std::vector<CorpusCase> load_corpus(const std::filesystem::path& folder, const std::string& filter);

// The inputs, scalars and outputs of one run, in host memory.
struct CorpusTensors {
  std::vector<std::string> names;
  std::vector<HostTensor> tensors;  // parallel to names
  std::vector<bool> is_output;      // parallel to names
  std::vector<Binding> scalars;
};
// Normally distributed inputs (a second operand of a matmul divided by sqrt(K)), poisoned outputs.
CorpusTensors make_tensors(const ir::Graph& graph, const CorpusCase& from, const Sizes& sizes,
                           bool with_special, std::uint64_t seed);

std::string text_of(const Sizes& sizes);  // "M=17 N=8"

}  // namespace epifuse::testing
