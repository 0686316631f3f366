// Gated products on a GPU: wherever the columns of the two products lie, one kernel reads them
// there and gives the same bits.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "backends/bind.h"
#include "backends/cuda/driver/memory.h"
#include "compile/program_state.h"
#include "epifuse/epifuse.h"

namespace epifuse {
namespace {

struct Layout {
  const char* name;
  bool is_separate, by_turns;
};
constexpr Layout kLayouts[] = {
    {"halves", false, false}, {"interleaved", false, true}, {"separate", true, false}};

struct GatedSizes {
  std::int64_t m, n, k;
};

// silu(x Wg) * (x Wu) of the same weights in any layout.
class GatedCall {
 public:
  GatedCall(std::shared_ptr<const cuda::Device> device, const Layout& layout, bool is_nn,
            const GatedSizes& sizes)
      : layout_(layout), is_nn_(is_nn), sizes_(sizes), program_(compile(graph(), Target::cuda())) {
    const auto bytes = [](std::int64_t count) { return static_cast<std::size_t>(count) * 2; };
    x_ = cuda::DeviceBuffer(device, bytes(sizes.m * sizes.k));
    for (cuda::DeviceBuffer& weights : w_) {
      weights = cuda::DeviceBuffer(device, bytes(2 * sizes.n * sizes.k));
    }
    y_ = cuda::DeviceBuffer(device, bytes(sizes.m * sizes.n));
    fill();
    y_.fill(0xff);
    cuda::synchronize(*device);
  }

  std::vector<std::uint16_t> run(const cuda::Device& device) {
    program_.run(bindings());
    cuda::synchronize(device);
    std::vector<std::uint16_t> bits(y_.size_bytes() / 2);
    y_.copy_to_host(bits.data(), y_.size_bytes());
    return bits;
  }

  // One kernel on the tensors as they are: nothing is split off, kept in between or copied.
  void expect_one_kernel() const {
    const backends::Executable& executable = *program_.state().executable;
    const auto bound = backends::bind(executable.plan(), bindings(), DeviceKind::cuda);
    const backends::RunPlan plan = executable.plan_for(bound);
    EXPECT_EQ(plan.plan.steps.size(), 1u);
    EXPECT_TRUE(plan.plan.temporaries().empty());
    ASSERT_EQ(plan.how.size(), 1u);
    EXPECT_EQ(plan.how[0].find("sm90_dense"), 0u) << plan.how[0];
  }

 private:
  Graph graph() const {
    const Dim m("M");
    const std::int64_t n = sizes_.n, k = sizes_.k;
    Graph graph("gated");
    const Value x = graph.input("x", DType::bf16, {m, k});
    const auto product = [&](const char* name, std::int64_t columns) {
      const std::vector<Dim> shape =
          is_nn_ ? std::vector<Dim>{k, columns} : std::vector<Dim>{columns, k};
      const Value w = graph.input(name, DType::bf16, shape);
      return matmul(x, is_nn_ ? w : transpose(w));
    };
    if (layout_.is_separate) {
      const Value gate = product("w0", n), up = product("w1", n);
      graph.output("y", silu(gate) * up);
      return graph;
    }
    const Value h = product("w0", 2 * n);
    const Value gate = slice(h, {{0, m}, layout_.by_turns ? Range{0, 2 * n, 2} : Range{0, n}});
    const Value up = slice(h, {{0, m}, layout_.by_turns ? Range{1, 2 * n, 2} : Range{n, 2 * n}});
    graph.output("y", silu(gate) * up);
    return graph;
  }

  // Small numbers that depend on which element it is, not on where it lies.
  static std::uint16_t number(std::int64_t which) {
    auto seed = static_cast<std::uint32_t>(which) * 2654435761u + 12345u;
    seed = (seed ^ seed >> 15) * 2246822519u;
    return static_cast<std::uint16_t>(0x3d00u + (seed >> 24) + (seed >> 8 & 0x8000u));
  }

  void fill() {
    const std::int64_t n = sizes_.n, k = sizes_.k;
    const std::int64_t wide = layout_.is_separate ? n : 2 * n;
    std::vector<std::uint16_t> x(x_.size_bytes() / 2);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = number(static_cast<std::int64_t>(i));
    x_.copy_from_host(x.data(), x_.size_bytes());
    std::vector<std::uint16_t> w[2];
    for (auto& each : w) each.resize(w_[0].size_bytes() / 2);
    for (std::int64_t product = 0; product < 2; ++product) {
      for (std::int64_t column = 0; column < n; ++column) {
        std::int64_t at = layout_.is_separate ? column : product * n + column;
        if (layout_.by_turns) at = 2 * column + product;
        for (std::int64_t depth = 0; depth < k; ++depth) {
          const std::int64_t place = is_nn_ ? depth * wide + at : at * k + depth;
          w[layout_.is_separate ? product : 0][static_cast<std::size_t>(place)] =
              number(((product * n + column) * k + depth) ^ 0x55555555);
        }
      }
    }
    for (std::size_t i = 0; i < 2; ++i) w_[i].copy_from_host(w[i].data(), w_[i].size_bytes());
  }

  static TensorView view(const cuda::DeviceBuffer& buffer, std::vector<std::int64_t> shape) {
    TensorView out;
    out.data = buffer.data();
    out.dtype = DType::bf16;
    out.shape = std::move(shape);
    out.device = DeviceKind::cuda;
    return out;
  }

  std::vector<Binding> bindings() const {
    const std::int64_t columns = layout_.is_separate ? sizes_.n : 2 * sizes_.n;
    const std::vector<std::int64_t> shape = is_nn_ ? std::vector<std::int64_t>{sizes_.k, columns}
                                                   : std::vector<std::int64_t>{columns, sizes_.k};
    std::vector<Binding> all{{"x", view(x_, {sizes_.m, sizes_.k})}, {"w0", view(w_[0], shape)}};
    if (layout_.is_separate) all.push_back({"w1", view(w_[1], shape)});
    all.push_back({"y", view(y_, {sizes_.m, sizes_.n})});
    return all;
  }

  const Layout& layout_;
  const bool is_nn_;
  const GatedSizes sizes_;
  const Program program_;
  cuda::DeviceBuffer x_, w_[2], y_;
};

TEST(GpuGated, LayoutsOfTheWeightsGiveTheSameBitsInOneKernelWithoutACopy) {
  const auto device = cuda::Device::require();
  for (const bool is_nn : {false, true}) {
    for (const GatedSizes& sizes : {GatedSizes{1, 4096, 1024}, GatedSizes{17, 136, 64},
                                    GatedSizes{300, 520, 264}, GatedSizes{2000, 3000, 520}}) {
      std::vector<std::uint16_t> expected;
      for (const Layout& layout : kLayouts) {
        SCOPED_TRACE(std::string(layout.name) + (is_nn ? " nn " : " ") + std::to_string(sizes.m));
        GatedCall call(device, layout, is_nn, sizes);
        const auto result = call.run(*device);
        if (expected.empty()) expected = result;
        EXPECT_TRUE(result == expected);
        call.expect_one_kernel();
      }
    }
  }
}

}  // namespace
}  // namespace epifuse
