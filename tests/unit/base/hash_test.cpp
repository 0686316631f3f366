// SHA-256 against published vectors (FIPS 180-4 examples, NIST CAVP) and lengths around a block.
#include "base/hash.h"

#include <gtest/gtest.h>

namespace epifuse {
namespace {

TEST(Hash, PublishedVectors) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Hash, LengthsAroundABlock) {
  const std::pair<std::size_t, const char*> rows[] = {
      {55, "aadaed00a3c5fbb8072ae7f1984ba8199fbe5272de427d11eaf31583af37db51"},
      {56, "528ff50ab05e77bbbd224a9ec86165dbb6824a9a9efb544be0a1d57d5b416457"},
      {63, "d12449c8124182545ae91924286cc6af13528bcf62a5ddbd5e00b891fffc1b48"},
      {64, "8667e718294e9e0df1d30600ba3eeb201f764aad2dad72748643e4a285e1d1f7"},
      {65, "855c9a28fff2bbbd71327165554a00c6fdd44d5d58c1f12b8fdff29b5d67f001"},
      {119, "b863f94597d433ef2280e3b4656f13ea265a79bb8047287321c218905b03c99b"},
      {128, "e9175db65a9789096ca9cb5524d3abc2107df03e3c9ba3af1aca628f9c5d3bd2"},
  };
  for (const auto& [length, hash] : rows) {
    EXPECT_EQ(sha256_hex(std::string(length, '\xff')), hash) << length;
  }
}

}  // namespace
}  // namespace epifuse
