// Folders and files of which only this user can be the author.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace epifuse {

// Why others may have written to this folder, as the end of a sentence about it: "belongs to user
// 1001". Empty when nobody else can, and where no folder is.
std::optional<std::string> why_not_private(const std::filesystem::path& folder);

// Reading takes regular files of this user only. Links are not followed, and nothing is waited for:
// a pipe, a device or a folder in a file's place is as good as no file.

// All bytes; empty when the file is longer than `max_bytes`, too.
std::optional<std::string> read_private_file(const std::filesystem::path& path,
                                             std::uintmax_t max_bytes);
// At most the first `num_bytes` bytes.
std::optional<std::string> read_private_head(const std::filesystem::path& path,
                                             std::uintmax_t num_bytes);

// "NAME" for ".NAME.XXXXXX.tmp", which write_file_atomically writes first; empty for other names.
std::optional<std::string> target_of_temporary(std::string_view file_name);
// No writer takes an hour: an older temporary file was left behind by one that was killed.
bool is_left_over(const std::filesystem::path& temporary);

}  // namespace epifuse
