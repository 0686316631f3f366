// Atomic writes, permissions, and the errors of both.
#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "epifuse/error.h"

namespace epifuse {
namespace {

class File : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "epifuse.XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static unsigned permissions(const std::filesystem::path& path) {
    return static_cast<unsigned>(std::filesystem::status(path).permissions()) & 0777u;
  }
  std::size_t num_entries() const {
    const std::filesystem::directory_iterator entries(folder_);
    return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
  }

  std::filesystem::path folder_;
};

TEST_F(File, WritesReplacesAndReads) {
  const std::filesystem::path path = folder_ / "a";
  EXPECT_EQ(read_file(path), std::nullopt);
  const std::string bytes("one\0two\xff", 8);
  write_file_atomically(path, bytes);
  EXPECT_EQ(read_file(path), bytes);
  write_file_atomically(path, "");
  EXPECT_EQ(read_file(path), "");
  EXPECT_EQ(num_entries(), 1u);  // no temporary is left
}

TEST_F(File, IsPrivateWhateverTheMask) {
  const mode_t mask = umask(0);
  write_file_atomically(folder_ / "a", "x");
  make_private_folder(folder_ / "b" / "c");
  umask(mask);
  EXPECT_EQ(permissions(folder_ / "a"), 0600u);
  EXPECT_EQ(permissions(folder_ / "b"), 0700u);
  EXPECT_EQ(permissions(folder_ / "b" / "c"), 0700u);
  make_private_folder(folder_ / "b" / "c");  // made already: fine
}

TEST_F(File, FailuresNameThePath) {
  try {
    write_file_atomically(folder_ / "none" / "a", "x");
    FAIL() << "written into a folder that is not there";
  } catch (const ArgumentError& error) {
    EXPECT_EQ(error.what(), "cannot write in folder " + (folder_ / "none").string() +
                                ": No such file or directory");
  }
  write_file_atomically(folder_ / "file", "x");
  EXPECT_THROW(make_private_folder(folder_ / "file"), ArgumentError);
  EXPECT_THROW(make_private_folder(folder_ / "file" / "below"), ArgumentError);
  EXPECT_THROW(write_file_atomically(folder_, "x"), ArgumentError);  // a folder in the way
  EXPECT_EQ(num_entries(), 1u);
  EXPECT_EQ(read_file(folder_), std::nullopt);
}

}  // namespace
}  // namespace epifuse
