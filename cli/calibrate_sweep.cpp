#include "calibrate_sweep.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/printable.h"
#include "epifuse/error.h"
#include "planned_point.h"
#include "results.h"

namespace epifuse::cli {
namespace {

// Candidates of one point, in the order of the file.
struct SweptPoint {
  Point point;
  std::vector<std::pair<std::string, double>> us;  // by config
};

Point point_of(const nlohmann::json& row) {
  Point point;
  point.suite = row.at("suite");
  point.workload = row.at("workload");
  point.m = row.at("m");
  point.n = row.at("n");
  point.k = row.at("k");
  point.batch = row.at("groups");
  point.epilogue = row.at("epilogue");
  const auto dtype = dtype_from_name(row.at("dtype").get<std::string>());
  if (!dtype) throw ArgumentError("expected a dtype, got " + row.at("dtype").dump());
  point.dtype = *dtype;
  const std::size_t space = point.workload.find(' ');  // the layout's words follow
  if (space != std::string::npos) point.layout = point.workload.substr(space + 1);
  return point;
}

// Points of a device's files by their texts; all rows are of the one device.
class SweptPoints {
 public:
  void add(const std::filesystem::path& file) {
    const nlohmann::json rows = read_rows(file);
    try {
      for (const nlohmann::json& row : rows) add_row(row);
    } catch (const nlohmann::json::exception& error) {
      throw ArgumentError(fmt::format("{}: expected rows of `epifuse bench --sweep`: {}",
                                      printable(file.native()), printable(error.what())));
    } catch (const ArgumentError& error) {
      throw ArgumentError(fmt::format("{}: {}", printable(file.native()), error.what()));
    }
  }

  const std::string& device() const { return device_; }
  const std::vector<SweptPoint>& points() const { return points_; }

 private:
  void add_row(const nlohmann::json& row) {
    if (row.at("contender") != "candidate") return;
    const std::string device = row.at("device");
    if (device_.empty()) device_ = device;
    if (device != device_) {
      throw ArgumentError(
          fmt::format("expected rows of {}, got one of {}", printable(device_), printable(device)));
    }
    const Point point = point_of(row);
    const std::string key =
        point.suite + " " + text(point) + " " + row.at("dtype").get<std::string>();
    const auto [found, is_new] = index_.try_emplace(key, points_.size());
    if (is_new) points_.push_back({point, {}});
    points_[found->second].us.emplace_back(row.at("config"), row.at("us"));
  }

  std::string device_;
  std::vector<SweptPoint> points_;
  std::map<std::string, std::size_t> index_;
};

// Rows of a named family are a suite of its name (cli/bench.cpp).
std::string_view named_family(const Point& point) {
  for (const codegen::KernelFamily& family : codegen::all_families()) {
    if (family.name == point.suite) return family.name;
  }
  return "";
}

// Nothing for a point that no family takes.
std::optional<TimedPoint> timed(const SweptPoint& swept, const targets::TargetInfo& target) {
  auto planned = plan_point(swept.point, target, named_family(swept.point));
  if (std::holds_alternative<plan::WhyNot>(planned)) return std::nullopt;
  const PlannedPoint& point = std::get<PlannedPoint>(planned);
  TimedPoint out{
      text(swept.point), std::make_shared<const plan::Plan>(point.plan), point.sizes, {}};
  out.variant = point.variant;
  out.family = point.family;
  for (const auto& [config, us] : swept.us) {
    out.ways.push_back({fmt::format("{}, {}", point.family->name, config), us});
  }
  return out;
}

}  // namespace

SweptProfile calibrate_from(const std::vector<std::filesystem::path>& files,
                            const targets::TargetInfo& target) {
  SweptPoints swept;
  for (const std::filesystem::path& file : files) swept.add(file);
  if (swept.device().empty()) {
    throw ArgumentError("--sweep: expected rows of `epifuse bench --sweep`, got files without any");
  }
  const targets::KnownDevice* known = targets::find_device(swept.device());
  if (known == nullptr) {
    throw ArgumentError(fmt::format(
        "calibrate: expected rows of a device that has a profile, got '{}'; make one there by "
        "`epifuse calibrate`",
        printable(swept.device())));
  }
  std::vector<TimedPoint> all;
  for (const SweptPoint& each : swept.points()) {
    auto point = timed(each, target);
    if (!point) continue;
    point->product = all.size();
    all.push_back(*std::move(point));
  }
  const targets::DeviceProfile device{known->measured->limits, {}, known};
  SweptProfile out;
  out.before = judge_model(all, {}, target, device);
  out.after = judge_fit(all, target, device);
  out.profile = targets::copy_of(*known);
  out.profile.constants = fit_model(all, target, device).constants;
  return out;
}

}  // namespace epifuse::cli
