// Tensors for running a graph from the command line: made up, or read from files; on the host, and
// on the device where the target is one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "epifuse/program.h"
#include "ir/graph.h"

namespace epifuse::cli {

struct InputOptions {
  std::map<std::string, std::string> files;  // of an input or scalar -> .npy, or raw bytes
  std::uint64_t seed = 1;
  std::map<std::string, double> deviations = {};  // of an input's numbers, where not the usual one
};

// Host memory for every input and output of a graph. Inputs without a file are normal random
// numbers; right operands of products are scaled by 1 / sqrt(K), as trained weights are. Outputs
// are poisoned with NaN bits. Scalars without a file are 0.5.
class HostTensors {
 public:
  // Throws ArgumentError when a file does not fit its input, or names none, and when this machine
  // cannot hold the tensors.
  HostTensors(const ir::Graph& graph, const Sizes& sizes, const InputOptions& options);

  const std::vector<Binding>& bindings() const { return bindings_; }
  void poison_outputs();
  std::size_t bytes(std::size_t i) const { return buffers_[i].size(); }
  bool is_output(std::size_t i) const { return i >= first_output_; }
  // The binding of an input or output; ArgumentError when there is none.
  const TensorView& view(const std::string& name) const;

 private:
  void add(const std::string& name, TensorView view, std::int64_t bytes);
  void fill_input(const ir::Node& node, const InputOptions& options, double scale);
  std::vector<Binding> bindings_;
  std::vector<std::vector<unsigned char>> buffers_;  // beside bindings_; empty for scalars
  std::size_t first_output_ = 0;
};

// The same tensors where a target reads them: the host's own, or copies on the device.
class TargetTensors {
 public:
  TargetTensors(HostTensors& host, const Target& target);
  ~TargetTensors();
  const std::vector<Binding>& bindings() const { return bindings_; }
  void poison_outputs();  // where the target writes them
  void fetch_outputs();   // to the host, after waiting for the device

 private:
  struct Device;
  HostTensors& host_;
  std::unique_ptr<Device> device_;  // null on the CPU
  std::vector<Binding> bindings_;
};

}  // namespace epifuse::cli
