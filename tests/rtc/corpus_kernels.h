// Every kernel that the corpus and the examples can ask for on the CUDA targets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codegen/family.h"

namespace epifuse::rtc {

struct CorpusKernel {
  std::string kind;   // family and config, or "tail"
  std::string graph;  // the first file that needs it
  codegen::KernelSource source;
  std::vector<codegen::KernelSource> leaner;  // to take its place, one after the other
};

// The variant of a family for operands whose rows start off its boundaries; the usual one where it
// has none.
codegen::GemmVariant misaligned(const codegen::KernelFamily& family, bool a, bool b);

// The variant for full operands and results whose rows start off a family's boundaries, by which so
// many elements may be moved at once, and if told for such operands; empty where it has none of its
// own.
codegen::GemmVariant full_off_boundaries(const codegen::KernelFamily& family,
                                         const plan::FusedGemm& step, int at_once,
                                         bool with_operands);

// Whether a config of a family is made for few rows alone.
bool is_for_few_rows(const codegen::KernelFamily& family, const codegen::GemmConfig& config);

// One entry per source text. All numerics levels; for each fused product every config of every
// family that takes it under `fast`, and the best for operands off their alignment; the best one
// under the others; the tail of its split.
std::vector<CorpusKernel> corpus_kernels();

// What a family has for a target of every graph under `fast`: the usual config, another one by
// turns, and one for operands off their alignment of every fourth. Throws ArgumentError for names
// that there are not.
std::vector<CorpusKernel> corpus_kernels(std::string_view family, std::string_view target);

}  // namespace epifuse::rtc
