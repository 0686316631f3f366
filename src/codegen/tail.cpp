// Prints tail kernels: elementwise work and the reductions that end it.
#include "codegen/tail.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "codegen/epilogue_cuda.h"
#include "codegen/epilogue_layout.h"
#include "codegen/source_text.h"
#include "ir/text.h"

namespace epifuse::codegen {
namespace {

using plan::Epilogue;
using plan::StoreKind;

constexpr int kBytesInFlight = 32;  // per thread: enough to cover memory latency at low occupancy
constexpr int kMaxChunks = 2;
constexpr int kMaxVector = 8, kMinVector = 4;
constexpr int kVectorBytes = 16;  // the widest load

bool any(const Epilogue& epilogue, bool (*reduces)(StoreKind)) {
  return std::any_of(epilogue.stores.begin(), epilogue.stores.end(),
                     [&](const plan::Store& store) { return reduces(store.kind); });
}

// Sizes of the elements that move once per element of the tail.
std::vector<int> moved_bytes(const Epilogue& epilogue, const EpilogueLayout& layout,
                             bool loads_only) {
  std::vector<int> bytes;
  for (int i : layout.of(List::tiles)) {
    bytes.push_back(layout.loads()[static_cast<std::size_t>(i)].bytes);
  }
  for (std::size_t i = 0; i < epilogue.stores.size() && !loads_only; ++i) {
    if (epilogue.stores[i].kind == StoreKind::tile) bytes.push_back(layout.stores()[i].bytes);
  }
  return bytes;
}

std::string_view function_cuda(TailKind kind) {
  switch (kind) {
    case TailKind::elementwise: return "elementwise";
    case TailKind::row_reduction: return "row_reduction";
    case TailKind::column_reduction: return "column_reduction";
    case TailKind::blocks: return "blocks";
    case TailKind::squares: return "squares";
  }
  return "";
}

bool looks_rows_up(const Epilogue& epilogue) {
  return std::any_of(epilogue.loads.begin(), epilogue.loads.end(),
                     [](const plan::Load& load) { return load.lookup >= 0; });
}
bool puts_rows(const Epilogue& epilogue) {
  return std::any_of(epilogue.stores.begin(), epilogue.stores.end(),
                     [](const plan::Store& store) { return store.index >= 0; });
}

// Left to itself ptxas spills some reductions, and what moves many tensors, to fit four blocks on a
// multiprocessor.
std::string_view launch_bounds(TailKind kind, const Epilogue& epilogue) {
  constexpr std::size_t kMany = 5;
  if (looks_up(epilogue)) return "epifuse::abi::kTailThreads, 1";
  const bool is_light = moved_bytes(epilogue, EpilogueLayout(epilogue), false).size() < kMany;
  return kind == TailKind::elementwise && is_light ? "epifuse::abi::kTailThreads"
                                                   : "epifuse::abi::kTailThreads, 2";
}

std::string tail_struct(const Epilogue& epilogue, const TailShape& shape) {
  std::vector<std::string_view> reductions;
  for (const plan::Store& store : epilogue.stores) reductions.push_back(reduce_cuda(store.kind));
  return fmt::format(
      "struct Tail {{\n"
      "  using Epilogue = generated::Epilogue;\n"
      "  static constexpr int kVector = {};  // consecutive elements that a thread takes at once\n"
      "  static constexpr int kChunks = {};  // such vectors that it has in flight\n"
      "  using Reduce = tail::Reduce;\n"
      "  static constexpr Reduce kReduce[] = {{{}}};  // of each store\n"
      "  static constexpr bool kLooksUp = {};   // rows of loads, by integers\n"
      "  static constexpr bool kPutsRows = {};  // of stores, likewise\n"
      "}};\n",
      shape.vector, shape.chunks, fmt::join(reductions, ", "), looks_rows_up(epilogue),
      puts_rows(epilogue));
}

}  // namespace

bool looks_up(const Epilogue& epilogue) { return looks_rows_up(epilogue) || puts_rows(epilogue); }

TailShape tail_shape(const Epilogue& epilogue) {
  EPIFUSE_CHECK(!epilogue.has_accumulator(), "a tail has no accumulator");
  const EpilogueLayout layout(epilogue);
  const bool rows = any(epilogue, plan::reduces_rows);
  const bool columns = any(epilogue, plan::reduces_columns);
  EPIFUSE_CHECK(!rows || !columns, "a tail kernel reduces along one dim");

  TailShape shape;
  if (rows) shape.kind = TailKind::row_reduction;
  if (columns) shape.kind = TailKind::column_reduction;
  if (epilogue.has_squares()) return {TailKind::squares, kMinVector, 1};
  if (epilogue.has_blocks()) return {TailKind::blocks, kMinVector, 1};
  int narrowest = kVectorBytes / kMinVector;
  for (int bytes : moved_bytes(epilogue, layout, false)) narrowest = std::min(narrowest, bytes);
  shape.vector = std::min(kVectorBytes / narrowest, kMaxVector);
  // In vectors of eight ptxas spills hundreds of bytes for some targets.
  if (rows && layout.size(List::tiles) == 0) shape.vector = std::min(shape.vector, kMinVector);
  int load_bytes = 0;
  for (int bytes : moved_bytes(epilogue, layout, true)) load_bytes += bytes * shape.vector;
  if (load_bytes > 0) shape.chunks = std::clamp(kBytesInFlight / load_bytes, 1, kMaxChunks);
  return shape;
}

KernelSource tail_source(const plan::Plan& plan, const plan::Tail& tail,
                         const targets::TargetInfo& target) {
  const Epilogue& epilogue = tail.epilogue;
  const TailShape shape = tail_shape(epilogue);
  KernelParts parts;
  parts.comment = fmt::format("Tail over {}:\n{}", ir::print(tail.shape), plan::print(epilogue));
  parts.includes = fmt::format("#include \"kernels/common/{}.cuh\"\n",
                               epilogue.has_blocks() ? "tail_blocks" : "tail");
  parts.generated =
      fmt::format("{}\n{}", epilogue_cuda(epilogue, plan.numerics), tail_struct(epilogue, shape));
  parts.bounds = launch_bounds(shape.kind, epilogue);
  parts.entry = entry_name("tail", epilogue);
  parts.params = looks_up(epilogue) ? "abi::LookupTailParams" : "abi::TailParams";
  parts.body = fmt::format("  epifuse::tail::{}<epifuse::generated::Tail>({});\n",
                           function_cuda(shape.kind), looks_up(epilogue) ? "p.tail" : "p");
  return kernel_source(target, parts);
}

}  // namespace epifuse::codegen
