// What of .npy headers is read, and what is refused.
#include "cli/npy_header.h"

#include <gtest/gtest.h>

#include "epifuse/error.h"

namespace epifuse::cli {
namespace {

using namespace std::string_literals;

// A file of this version with this dict, padded as NumPy does, and without data.
std::string file(const std::string& dict, char version = 1) {
  const std::string text = dict + "    \n";
  std::string out = "\x93NUMPY"s + version + '\0' + static_cast<char>(text.size()) + '\0';
  if (version > 1) out += "\0\0"s;
  return out + text;
}

std::string error_of(const std::string& bytes) {
  try {
    parse_npy_header("a.npy", bytes);
    return "none";
  } catch (const ArgumentError& error) {
    return error.what();
  }
}

std::string with_shape(const std::string& shape) {
  return file("{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }");
}

TEST(NpyHeader, ReadsWhatNumpyWrites) {
  for (const char version : {1, 2, 3}) {
    const std::string bytes =
        file("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 0), }", version);
    const NpyHeader header = parse_npy_header("a.npy", bytes + "data");
    EXPECT_EQ(header.descr, "<f4");
    EXPECT_TRUE(header.fortran_order);
    EXPECT_EQ(header.shape, (std::vector<std::int64_t>{3, 0}));
    EXPECT_EQ(header.data_offset, bytes.size());
  }
  EXPECT_EQ(parse_npy_header("a.npy", with_shape("()")).shape, std::vector<std::int64_t>{});
  EXPECT_EQ(parse_npy_header("a.npy", with_shape("(7,)")).shape, std::vector<std::int64_t>{7});
  const std::string other = file("{'shape':(7,),'fortran_order':False,'descr':'|b1'}");
  EXPECT_EQ(parse_npy_header("a.npy", other).descr, "|b1");
}

TEST(NpyHeader, ReadsWhatItWrites) {
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{}, {5}, {5, 0}, {1, 2, 3, 4, 5, std::int64_t{1} << 62}}) {
    const std::string bytes = npy_header("<f4", shape);
    EXPECT_EQ(bytes.size() % 64, 0u);
    EXPECT_EQ(parse_npy_header("a.npy", bytes).shape, shape);
    EXPECT_EQ(parse_npy_header("a.npy", bytes).data_offset, bytes.size());
  }
}

TEST(NpyHeader, RefusesOtherVersions) {
  const std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }";
  EXPECT_EQ(error_of(file(dict, 9)),
            "a.npy: expected a .npy file with version 1.0, 2.0 or 3.0, got 9.0");
  EXPECT_NE(error_of(file(dict, 0)), "none");
  std::string minor = file(dict);
  minor[7] = '\x01';
  EXPECT_NE(error_of(minor), "none");
}

TEST(NpyHeader, RefusesOtherShapes) {
  for (const char* shape : {"(4 foo 8)", "(8)", "(-8,)", "(+8,)", "(08,)", "(8.0,)", "(8,,)", "(,)",
                            "(8 4)", "[8, 4]", "(8, 4", "(8L,)", "8", "(9223372036854775808,)"}) {
    EXPECT_NE(error_of(with_shape(shape)), "none") << shape;
  }
  EXPECT_EQ(error_of(with_shape("(4 foo 8)")),
            "a.npy: expected a .npy file with a shape such as (8, 4) or (8,), got 'foo 8), }    "
            "\\x0a'");
}

TEST(NpyHeader, RefusesOtherDicts) {
  for (const char* dict : {
           "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }",
           "{'descr': '<f4', 'fortran_order': 1, 'shape': (1,), }",
           "{'descr': '<f4', 'fortran_order': Falsehood, 'shape': (1,), }",
           "{'descr': '<f4', 'shape': (1,), }",
           "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,), }",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1, }",
           "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }",
           "{'descr': '<f4, 'fortran_order': False, 'shape': (1,), }",
           "{'descr': '<f4' 'fortran_order': False, 'shape': (1,), }",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } x",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), ",
           "",
       }) {
    EXPECT_NE(error_of(file(dict)), "none") << dict;
  }
}

TEST(NpyHeader, RefusesWhatIsCutOrTooLong) {
  const std::string whole = with_shape("(1,)");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(error_of(whole.substr(0, length)), "none") << length;
  }
  std::string changed = whole;
  changed[0] = 'x';
  EXPECT_NE(error_of(changed), "none");
  std::string longer = whole;
  longer[9] = '\x7f';
  EXPECT_EQ(error_of(longer + std::string(40000, ' ')).substr(0, 62),
            "a.npy: expected a .npy file with a header of at most 10000 byt");
}

}  // namespace
}  // namespace epifuse::cli
