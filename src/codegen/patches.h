// Where the addresses and scalars of a call go in a launch that is prepared before they are known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codegen/bound.h"
#include "codegen/launch.h"

namespace epifuse::codegen {

// What a launch decides by an address is its remainder by this.
constexpr std::uintptr_t kAddressUnit = 256;

// Stands for the address of tensor `number` of a call, that has this remainder. The ranges in which
// two tensors may lie are disjoint.
void* placeholder(std::size_t number, std::uintptr_t remainder = 0);
// Stands for scalar `number` of a call.
double scalar_placeholder(std::size_t number);

// Other placeholders for the same tensors and scalars: what differs in a launch on them is an
// address or a scalar.
void* second_placeholder(void* first);
Bound with_second_placeholders(Bound bound);

// `bytes` behind the multiple of kAddressUnit at or before the address of tensor `number`.
struct AddressPlace {
  std::size_t number = 0;
  std::int64_t bytes = 0;
  bool operator==(const AddressPlace&) const = default;
};
// Of a placeholder, moved by less than 2^43 bytes. Throws InternalError for any other address.
AddressPlace place_of(const void* address);

// What a call brings: the multiple of kAddressUnit at or before the address of each tensor
// (`bases`, by number), and its scalars.
struct CallValues {
  std::span<const std::uintptr_t> bases;
  std::span<const double> scalars;
  std::uintptr_t address(const AddressPlace& place) const {
    return bases[place.number] + static_cast<std::uintptr_t>(place.bytes);
  }
};

// A launch on placeholders, and where the values of a call go.
struct PatchedLaunch {
  struct Address {
    std::size_t offset;  // into params
    AddressPlace place;
  };
  struct Scalar {
    std::size_t offset;  // into params
    std::size_t number;
  };
  Launch launch;
  std::vector<Address> addresses;
  std::vector<Scalar> scalars;
  std::vector<AddressPlace> maps;  // where the matrix of each of launch.maps starts
};
// Of the same launch on both sets of placeholders.
PatchedLaunch find_patches(Launch first, const Launch& second);

// Writes addresses and scalars into a copy of a launch's parameters; maps stay as they are.
void patch(std::span<const PatchedLaunch::Address> addresses,
           std::span<const PatchedLaunch::Scalar> scalars, const CallValues& values,
           unsigned char* params);

}  // namespace epifuse::codegen
