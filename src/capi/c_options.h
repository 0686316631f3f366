// The JSON of the C interface: options that come in, descriptions that go out.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "capi/layout_programs.h"
#include "epifuse/fusion.h"

namespace epifuse {

// What frameworks may ask for.
struct FrameworkOptions {
  std::string target = "auto";
  CompileOptions compile;
  FusionRequest fusion;
};

enum class OptionsOf : std::uint8_t { kernel, fusions };

// Reads a JSON object; empty text is one without keys. Only fusions take those of
// FusionRequest. Throws ArgumentError for keys and values that it does not know.
FrameworkOptions parse_options(std::string_view json, OptionsOf what);

// As include/epifuse/c.h says.
std::string reserved_words_json();
std::string describe_json(const Graph& graph);
std::string fusions_json(const Fusions& fusions);

// One kernel of the process, as epifuse_stats describes it.
struct KernelUse {
  std::string_view graph, options;
  std::int64_t calls = 0;
  ProgramStats programs;
};
// Of what runs; of nothing where nothing does.
std::string choice_json(const std::optional<backends::RunPlan>& run);
std::string stats_json(std::span<const KernelUse> kernels);

}  // namespace epifuse
