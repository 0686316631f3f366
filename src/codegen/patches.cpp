#include "codegen/patches.h"

#include <bit>
#include <cstring>

#include "base/check.h"

namespace epifuse::codegen {
namespace {

// A tensor reaches over 2^43 bytes at most, before its address or behind it.
constexpr int kRangeBits = 44;
constexpr std::uint64_t kToSecond = std::uint64_t{1} << 62;
constexpr std::uint64_t kMostTensors = kToSecond >> kRangeBits;
constexpr std::uint32_t kFirstScalar = std::bit_cast<std::uint32_t>(1.0F);
constexpr std::uint32_t kScalarToSecond = std::bit_cast<std::uint32_t>(2.0F) - kFirstScalar;

template <class Word>
Word word_at(const std::vector<unsigned char>& bytes, std::size_t offset) {
  Word word{};
  std::memcpy(&word, bytes.data() + offset, sizeof word);
  return word;
}

// Half of eight bytes that hold no address.
void find_scalar(const Launch& first, const Launch& second, std::size_t offset,
                 PatchedLaunch& out) {
  const auto a = word_at<std::uint32_t>(first.params, offset);
  const auto b = word_at<std::uint32_t>(second.params, offset);
  if (a == b) return;
  EPIFUSE_CHECK(b - a == kScalarToSecond && a >= kFirstScalar,
                "a launch differs between placeholders in addresses and scalars only");
  out.scalars.push_back({offset, a - kFirstScalar});
}

}  // namespace

void* placeholder(std::size_t number, std::uintptr_t remainder) {
  EPIFUSE_CHECK(number + 2 < kMostTensors && remainder < kAddressUnit, "a tensor of a call");
  return reinterpret_cast<void*>((static_cast<std::uintptr_t>(number + 1) << kRangeBits) +
                                 remainder);
}

double scalar_placeholder(std::size_t number) {
  EPIFUSE_CHECK(number < kScalarToSecond, "a scalar of a call");
  return std::bit_cast<float>(kFirstScalar + static_cast<std::uint32_t>(number));
}

void* second_placeholder(void* first) {
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(first) + kToSecond);
}

Bound with_second_placeholders(Bound bound) {
  for (BoundTensor& tensor : bound.tensors) {
    if (tensor.data != nullptr) tensor.data = second_placeholder(tensor.data);
  }
  for (double& scalar : bound.scalars) scalar *= 2;
  return bound;
}

AddressPlace place_of(const void* address) {
  constexpr std::uintptr_t kHalf = std::uintptr_t{1} << (kRangeBits - 1);
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  const std::uintptr_t range = (value + kHalf) >> kRangeBits;
  EPIFUSE_CHECK(range > 0 && range < kMostTensors,
                "an address of a prepared launch is of a tensor");
  return {range - 1, static_cast<std::int64_t>(value - (range << kRangeBits))};
}

PatchedLaunch find_patches(Launch first, const Launch& second) {
  PatchedLaunch out;
  EPIFUSE_CHECK(first.params.size() == second.params.size() && first.grid == second.grid &&
                    first.maps.size() == second.maps.size() &&
                    first.smem_bytes == second.smem_bytes && first.params.size() % 8 == 0,
                "a launch does not depend on addresses");
  for (std::size_t at = 0; at < first.params.size(); at += sizeof(std::uint64_t)) {
    const auto a = word_at<std::uint64_t>(first.params, at);
    if (word_at<std::uint64_t>(second.params, at) - a == kToSecond) {
      out.addresses.push_back({at, place_of(reinterpret_cast<const void*>(a))});
      continue;
    }
    for (const std::size_t half : {at, at + sizeof(std::uint32_t)}) {
      find_scalar(first, second, half, out);
    }
  }
  for (std::size_t i = 0; i < first.maps.size(); ++i) {
    EPIFUSE_CHECK(first.maps[i].offset == second.maps[i].offset, "the same maps");
    out.maps.push_back(place_of(first.maps[i].data));
  }
  out.launch = std::move(first);
  return out;
}

void patch(std::span<const PatchedLaunch::Address> addresses,
           std::span<const PatchedLaunch::Scalar> scalars, const CallValues& values,
           unsigned char* params) {
  for (const PatchedLaunch::Address& each : addresses) {
    const std::uintptr_t address = values.address(each.place);
    std::memcpy(params + each.offset, &address, sizeof address);
  }
  for (const PatchedLaunch::Scalar& each : scalars) {
    const auto scalar = static_cast<float>(values.scalars[each.number]);
    std::memcpy(params + each.offset, &scalar, sizeof scalar);
  }
}

}  // namespace epifuse::codegen
