// Announces and takes the tiles of groups of rows (kernels/sm90/announce.cuh) on the host: a thread
// stands for a warp.
#include <gtest/gtest.h>

#include <new>
#include <thread>
#include <type_traits>
#include <vector>

#include "cuda_on_host.h"

inline int __shfl_sync(unsigned, int x, int) { return x; }

#include "kernels/sm90/announce.cuh"

namespace epifuse::sm90 {
namespace {

template <class Consumers_, bool kGathers>
struct Tiles : UsualConfig {
  static constexpr int kTileM = 128, kTileN = 128;
  static constexpr int kSharedBytes = 232448;
  using Consumers = Consumers_;
  using Scheduler = GroupedProducts;
  using Producer =
      std::conditional_t<kGathers, GatheredRows<UsualConfig::Producer>, UsualConfig::Producer>;
};

bool operator==(const AnnouncedTile& a, const AnnouncedTile& b) {
  return a.m == b.m && a.n == b.n && a.group == b.group && a.row_end == b.row_end &&
         a.exists == b.exists && a.is_short == b.is_short;
}

template <class Config>
std::vector<AnnouncedTile> sequence_of(const abi::GemmParams& p) {
  std::vector<AnnouncedTile> out;
  TileSequence<Config> sequence(p);
  while (!sequence.is_over()) out.push_back(sequence.next(p));
  return out;
}

AnnouncedTile tile_of(const auto& scheduler, bool exists) {
  return {scheduler.m,
          scheduler.n,
          scheduler.group.group,
          scheduler.group.row_end,
          exists,
          scheduler.group.is_short};
}

// The producer of a CTA, whose every tile takes `steps`, and the warps that take them.
template <class Config>
class Cta {
 public:
  static constexpr int kWarps =
      4 + !Config::Producer::kGathersA;  // of a consumer, with what transfers
  static constexpr int kGatherers = Config::Producer::kGathersA ? 3 : 0;

  Cta(const abi::GemmParams& p, unsigned cta, unsigned num_ctas, int steps)
      : p_(p), cta_(cta), num_ctas_(num_ctas), steps_(steps) {
    using Ring = TileRing<Config>;
    for (int i = 0; i < Ring::kPlaces; ++i) {
      (new (&Ring::announced(i)) EmptyBarrier)->init(1);
      (new (&Ring::taken(i)) EmptyBarrier)
          ->init(kWarps * (Config::Consumers::kCooperative ? 2 : 1) + kGatherers);
    }
  }

  void run(const std::vector<AnnouncedTile>& expected) {
    std::vector<std::thread> warps;
    for (int consumer = 0; consumer < 2; ++consumer) {
      for (int w = 0; w < kWarps; ++w) {
        warps.emplace_back([&, consumer] { consume(consumer, expected); });
      }
    }
    for (int w = 0; w < kGatherers; ++w) warps.emplace_back([&] { gather(expected); });
    produce(expected);
    for (std::thread& warp : warps) warp.join();
  }

 private:
  void start() const {
    blockIdx.x = cta_;
    gridDim.x = num_ctas_;
    threadIdx.x = 0;
  }
  void produce(const std::vector<AnnouncedTile>& expected) const {
    start();
    TileAnnouncer<Config> announcer(p_);
    std::size_t i = 0;
    for (; announcer.tile().exists; announcer.go_on(), ++i) {
      EXPECT_TRUE(announcer.tile() == expected[i]);
      for (int s = 0; s < steps_; ++s) announcer.announce_more();
    }
    EXPECT_FALSE(expected[i].exists);
    announcer.announce_end();
  }
  void consume(int consumer, const std::vector<AnnouncedTile>& expected) const {
    start();
    ConsumerScheduler<Config> scheduler;
    bool more = scheduler.begin(p_, consumer);
    auto i = static_cast<std::size_t>(Config::Consumers::kCooperative ? 0 : consumer);
    for (;; more = scheduler.next(p_), i += Config::Consumers::kCooperative ? 1 : 2) {
      EXPECT_TRUE(tile_of(scheduler, more) == expected[i]);
      if (!more) break;
    }
  }
  void gather(const std::vector<AnnouncedTile>& expected) const {
    start();
    AnnouncedScheduler<Config> scheduler;
    for (std::size_t i = 0;; ++i, ++scheduler.number) {
      const bool exists = scheduler.take();
      EXPECT_TRUE(tile_of(scheduler, exists) == expected[i]);
      if (!exists) break;
    }
  }

  const abi::GemmParams& p_;
  unsigned cta_, num_ctas_;
  int steps_;
};

template <class Config>
void expect_all_taken() {
  const std::vector<int> ends{1, 1, 700, 737, 737, 1200, 1329, 2000};
  abi::GemmParams p{};
  p.m = 2000;
  p.n = 640;
  p.raster = 16;
  p.groups = {ends.data(), 1, static_cast<int>(ends.size()), 0};
  for (const unsigned num_ctas : {1u, 3u, 200u}) {
    gridDim.x = num_ctas;
    blockIdx.x = num_ctas - 1;  // the last of 200 has no tile
    const std::vector<AnnouncedTile> expected = sequence_of<Config>(p);
    for (const int steps : {1, 2, 32}) {
      Cta<Config>(p, num_ctas - 1, num_ctas, steps).run(expected);
    }
  }
}

TEST(Sm90Announce, EveryWarpTakesItsTiles) {
  expect_all_taken<Tiles<PingPong, false>>();
  expect_all_taken<Tiles<PingPong, true>>();
  expect_all_taken<Tiles<Cooperative, false>>();
}

}  // namespace
}  // namespace epifuse::sm90
