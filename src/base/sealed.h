// Files of text fields that are whole and unchanged, or do not count.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace epifuse {

// A text of fields: each as its length in decimal, a newline, its bytes.
void append_field(std::string& text, std::string_view field);
void append_field(std::string& text, int number);

// Reads back what append_field wrote; ok() is false from the first field that is not there.
class FieldReader {
 public:
  explicit FieldReader(std::string_view text) : rest_(text) {}
  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }
  std::string_view string();
  int number();

 private:
  std::string_view rest_;
  bool ok_ = true;
};

// `format` (a line), a checksum of all that follows, then the fields.
std::string seal(std::string_view format, std::string_view fields);
// The fields; empty when the format is another or any byte was lost, changed or added.
std::optional<std::string_view> unseal(std::string_view format, std::string_view bytes);

}  // namespace epifuse
