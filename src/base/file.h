// Whole files, written so that no reader ever sees half of one.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace epifuse {

// All bytes of a file; empty when it cannot be opened or read.
std::optional<std::string> read_file(const std::filesystem::path& path);

// Makes the folder and its missing parents, readable by this user only (0700). Throws
// ArgumentError.
void make_private_folder(const std::filesystem::path& folder);

// Writes to a temporary name beside `path`, syncs, then renames: other processes see the old file
// or the whole new one, also after a crash. A link or a device of that name is replaced: for files
// of epifuse's own. Permissions are 0600. Throws ArgumentError.
void write_file_atomically(const std::filesystem::path& path, std::string_view bytes);

// The same where no file has the name yet; false, and nothing written, where one has.
bool write_new_file(const std::filesystem::path& path, std::string_view bytes);

// Files of a folder whose names end so, sorted; none where it cannot be read.
std::vector<std::filesystem::path> files_with(const std::filesystem::path& folder,
                                              std::string_view suffix);

// Temporary files that writers killed midway leave behind have names ending in this.
inline constexpr std::string_view kTemporarySuffix = ".tmp";

}  // namespace epifuse
