// Which configs of a family are worth compiling before any tensor is seen.
#include "tune/shortlist.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/ceil_div.h"
#include "epifuse/error.h"

namespace epifuse::tune {
namespace {

// Rows: 64 is a decode step or anything smaller (one row of tiles), 128 and 256 large batches of
// them, 512 to 12288 prompts and training, 16384 where all waves are full and larger sizes choose
// alike. From 1024 on the halves between powers of 2 count too: waves fill otherwise there, and
// without them the choice loses up to 18 % (6304 x 1024 x 4096), 1.4 % on average instead of 1.1 %.
constexpr std::int64_t kRows[] = {64,   128,  256,  512,  1024,  1536, 2048,
                                  3072, 4096, 6144, 8192, 12288, 16384};
constexpr std::int64_t kWidth = 4096;  // of a layer, where not even that is known
constexpr std::int64_t kBatch = 16;    // heads
constexpr std::int64_t kExperts = 8;

void assume(const Dim& dim, std::int64_t value, Sizes& sizes) {
  for (const std::string& symbol : dim.symbols()) sizes.emplace(symbol, value);
}

// The expected time of every config at every size, relative to the size's best.
class Losses {
 public:
  Losses(const codegen::KernelFamily& family, const plan::FusedGemm& step,
         std::span<const codegen::GemmConfig> configs, std::span<const codegen::GemmSizes> sizes,
         const targets::DeviceProfile& device) {
    for (const codegen::GemmSizes& size : sizes) {
      std::vector<double> us;
      for (const codegen::GemmConfig& config : configs) {
        us.push_back(family.expected_us(step, config, size, device));
      }
      const std::size_t choice = codegen::choose(family, step, configs, size, device);
      for (double& each : us) each = us[choice] > 0 ? each / us[choice] : 1.0;
      choices_.insert(choice);
      relative_.push_back(std::move(us));
    }
  }

  const std::set<std::size_t>& choices() const { return choices_; }

  // Summed over the sizes, each with the best of `picked` and `next`.
  double of(const std::vector<std::size_t>& picked, std::size_t next) const {
    double sum = 0;
    for (const std::vector<double>& us : relative_) {
      double best = us[next];
      for (std::size_t i : picked) best = std::min(best, us[i]);
      sum += best;
    }
    return sum;
  }

 private:
  std::vector<std::vector<double>> relative_;  // by size, then config
  std::set<std::size_t> choices_;
};

}  // namespace

codegen::GemmSizes gemm_sizes(const plan::GemmDesc& gemm, const Sizes& sizes) {
  codegen::GemmSizes out;
  for (const Dim& dim : gemm.batch) {
    if (__builtin_mul_overflow(out.batch, dim.eval(sizes), &out.batch)) {
      throw ArgumentError("expected a batch of at most 2^40 products, got more than 64 bits hold");
    }
  }
  out.m = gemm.m.eval(sizes);
  out.n = gemm.n.eval(sizes);
  out.k = gemm.k.eval(sizes);
  // Nobody knows how much of K each has: even parts of it are what can be expected.
  if (gemm.is_k_grouped()) out.k = ceil_div(out.k, std::max<std::int64_t>(out.batch, 1));
  if (gemm.is_grouped() && !gemm.is_padded()) {
    out.groups = gemm.num_groups.eval(sizes);
    if (out.groups == 0) out.batch = 0;
  }
  return out;
}

codegen::GemmSizes gemm_sizes(const plan::GemmDesc& gemm, const codegen::Bound& bound) {
  return codegen::with_rows(gemm_sizes(gemm, bound.sizes), gemm, bound);
}

std::vector<codegen::GemmSizes> typical_sizes(const plan::GemmDesc& gemm) {
  // What counts tokens: the rows, or the columns where the rows are fixed (a transposed layer).
  const Dim& tokens = gemm.m.constant() ? gemm.n : gemm.m;
  std::vector<codegen::GemmSizes> out;
  for (const std::int64_t rows : kRows) {
    Sizes sizes;
    const std::vector<std::string> symbols = tokens.symbols();
    if (!symbols.empty()) sizes.emplace(symbols.front(), rows);
    assume(tokens, 1, sizes);  // B*S: all of them in the first
    assume(gemm.n, kWidth, sizes);
    assume(gemm.k, kWidth, sizes);
    for (const Dim& dim : gemm.batch) assume(dim, kBatch, sizes);
    assume(gemm.num_groups, kExperts, sizes);
    codegen::GemmSizes size = gemm_sizes(gemm, sizes);
    for (std::int64_t* each : {&size.batch, &size.m, &size.n, &size.k}) {
      *each = std::max<std::int64_t>(*each, 1);  // dims such as M-100
    }
    out.push_back(size);
    if (symbols.empty()) break;
  }
  return out;
}

std::vector<std::size_t> shortlist(const codegen::KernelFamily& family, const plan::FusedGemm& step,
                                   std::span<const codegen::GemmConfig> configs,
                                   std::span<const codegen::GemmSizes> sizes,
                                   const targets::DeviceProfile& device, std::size_t most) {
  if (configs.empty()) return {};
  const Losses losses(family, step, configs, sizes, device);
  std::set<std::size_t> left = losses.choices();
  std::vector<std::size_t> picked;
  while (picked.size() < most && !left.empty()) {
    std::size_t best = *left.begin();
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i : left) {
      const double loss = losses.of(picked, i);
      if (loss < least) {
        least = loss;
        best = i;
      }
    }
    picked.push_back(best);
    left.erase(best);
  }
  std::sort(picked.begin(), picked.end());
  return picked;
}

}  // namespace epifuse::tune
