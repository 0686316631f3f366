// What commands print on standard output.
#pragma once

#include <nlohmann/json.hpp>

namespace epifuse::cli {

// The document and a newline, keys sorted or as they are. Bytes that are no UTF-8, as file names
// may hold, become U+FFFD.
void print_json(const nlohmann::json& document);
void print_json_in_order(const nlohmann::ordered_json& document);

// Writes out what standard output still holds. `code`, or kOutputLost where that was 0 and some of
// the output could not be written; says so on standard error.
int finish_output(int code);

}  // namespace epifuse::cli
