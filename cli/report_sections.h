// Sections of the page of measured numbers that are no tables of a suite; "" without rows.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace epifuse::cli {

// How far the model of time is off on products that it was not fitted to.
std::string model_section(const nlohmann::json& rows);
// Products that nobody chose, over Inductor in the same process.
std::string random_section(const nlohmann::json& rows);
// 8-bit floats with scales in PyTorch, over its bare products of them.
std::string scaled_section(const nlohmann::json& rows);

}  // namespace epifuse::cli
