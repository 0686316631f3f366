// `epifuse calibrate`: measures the GPU at hand and keeps its profile; profiles as files.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <exception>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "backends/cuda/driver/device.h"
#include "base/printable.h"
#include "calibrate_device.h"
#include "calibrate_sweep.h"
#include "codegen/family.h"
#include "command.h"
#include "epifuse/error.h"
#include "files.h"
#include "options.h"
#include "output.h"
#include "results.h"
#include "targets/profile_files.h"

namespace epifuse::cli {
namespace {

struct Options {
  double budget_seconds = 60;
  std::string export_file, import_file, results, commit;
  std::vector<std::string> sweeps;
  std::string target;
  bool json = false;
};

constexpr double kLargeLoss = 0.08;
constexpr const char* kHeldOut =
    "fitted to half of the points, judged on the other half, both ways";
constexpr std::size_t kMostProfileBytes = std::size_t{4} << 20;

void say(const std::string& line) { fmt::print(stderr, "{}\n", printable_lines(line)); }

nlohmann::json keep(const targets::StoredProfile& profile, bool json) {
  const auto folder = targets::profile_folder();
  targets::store_profile(folder, profile);
  const auto file = targets::profile_file(folder, profile.device);
  if (!json) {
    fmt::print("{}: choices on {} go by it from the next process on\n", printable(file.native()),
               printable(profile.device));
  }
  return {{"device", profile.device}, {"file", file.string()}, {"origin", profile.origin}};
}

bool is_known(const targets::StoredProfile::Constant& constant) {
  return std::ranges::any_of(codegen::all_families(), [&](const codegen::KernelFamily& family) {
    return family.name == constant.family && family.constants != nullptr &&
           std::ranges::count(family.constants({}), constant.name, &codegen::NamedConstant::name) >
               0;
  });
}

targets::StoredProfile read_profile(const std::string& path) {
  try {
    targets::StoredProfile profile = targets::parse_profile(read_input(path, kMostProfileBytes));
    for (const targets::StoredProfile::Constant& each : profile.constants) {
      if (is_known(each)) continue;
      say(fmt::format(
          "--import {}: no kernel family has the constant '{} {}', which does not count", path,
          each.family, each.name));
    }
    return profile;
  } catch (const ArgumentError& error) {
    throw ArgumentError(fmt::format("--import {}: {}", printable(path), error.what()));
  }
}

// The profile that choices on the device at hand go by.
targets::StoredProfile known_profile() {
  const auto device = cuda::Device::require();
  const targets::KnownDevice* known = targets::find_device(device->info().name);
  if (known == nullptr) {
    throw ArgumentError(
        fmt::format("--export: there is no profile of {}; `epifuse calibrate` "
                    "without --budget 0 makes one",
                    printable(device->info().name)));
  }
  return targets::copy_of(*known);
}

nlohmann::json spread_json(const ModelError::Spread& spread) {
  return {{"mean", spread.mean}, {"p95", spread.p95}, {"worst", spread.worst}};
}

std::string spread_text(const ModelError::Spread& spread) {
  return fmt::format("{:.1f} % on average, 95 % of them at most {:.1f} %, worst {:.1f} %",
                     100 * spread.mean, 100 * spread.p95, 100 * spread.worst);
}

void describe(const char* which, const ModelError& error) {
  fmt::print("{}\n  expected beside measured  {}\n  choice behind the best    {}\n", which,
             spread_text(error.expected_spread()), spread_text(error.chosen_spread()));
  for (const ModelError::Point& each : error.points) {
    if (each.loss <= kLargeLoss) continue;
    fmt::print("  over {:.0f} %: {}: {:.1f} %; {}, {:.1f} us for an expected {:.1f}, not {}\n",
               100 * kLargeLoss, each.text, 100 * each.loss, each.chosen, each.chosen_us,
               each.chosen_expected_us, each.best);
  }
}

// What a fit to half of the products is worth on the others: rows of suite `model`, of which
// `ratio` is 1 and what is too much.
nlohmann::json rows_of(const ModelError& held_out, const Options& options) {
  const auto device = cuda::Device::require();
  const ResultContext about{device->info().name, cuda::version_text(device->info().driver_version),
                            options.commit,
                            fmt::format("epifuse calibrate --budget {}", options.budget_seconds),
                            fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)))};
  nlohmann::json rows = nlohmann::json::array();
  const auto add = [&](const char* what, const char* baseline, const char* which, double value) {
    ResultRow row{"model", what, static_cast<std::int64_t>(held_out.points.size())};
    row.dtype = "bf16";
    row.epilogue = which;
    row.numerics = "fast";
    row.contender = "epifuse";
    row.baseline = baseline;
    row.ratio = 1 + value;
    rows.push_back(to_json(row, about));
  };
  for (const auto& [what, baseline, spread] :
       {std::tuple("time", "measured", held_out.expected_spread()),
        std::tuple("choice", "best candidate", held_out.chosen_spread())}) {
    add(what, baseline, "mean", spread.mean);
    add(what, baseline, "p95", spread.p95);
    add(what, baseline, "worst", spread.worst);
  }
  return rows;
}

void tell(const Calibration& made) {
  fmt::print("{}: {} products; the model was {:.1f} % off on average, now {:.1f} %\n",
             printable(made.profile.device), made.num_products, 100 * made.error_before,
             100 * made.error_after);
  if (!made.held_out.points.empty()) describe(kHeldOut, made.held_out);
}

std::filesystem::path results_file(const Options& options, const std::string& device) {
  return std::filesystem::path(options.results) / (file_stem(device) + ".json");
}

// Throws Error where what is measured could not be kept.
void check_before_measuring(const Options& options) {
  const auto device = cuda::Device::require();
  targets::check_profile_folder(targets::profile_folder());
  if (!options.results.empty()) check_results(results_file(options, device->info().name));
}

// A profile of this device.
Calibration measure(const Options& options) {
  Calibration made = calibrate(options.budget_seconds, say);
  constexpr std::size_t kFewestProducts = 2;  // by one the model is fitted, by another judged
  if (made.num_products < kFewestProducts) {
    throw ArgumentError(fmt::format(
        "calibrate: expected a --budget for at least {} products, got {} seconds, which "
        "were enough for {}: fitting takes some of them. No profile is kept",
        kFewestProducts, options.budget_seconds, made.num_products));
  }
  if (!options.json) tell(made);
  return made;
}

void keep(const Calibration& made, const Options& options, nlohmann::json& out) {
  out.update(keep(made.profile, options.json));
  out["products"] = made.num_products;
  out["error_before"] = made.error_before;
  out["error_after"] = made.error_after;
  out["held_out"] = {{"points", made.held_out.points.size()},
                     {"expected", spread_json(made.held_out.expected_spread())},
                     {"chosen", spread_json(made.held_out.chosen_spread())}};
  if (!options.results.empty() && !made.held_out.points.empty()) {
    merge_results(results_file(options, made.profile.device), rows_of(made.held_out, options));
  }
}

const targets::TargetInfo& named_target(const std::string& name) {
  const targets::TargetInfo* found = targets::find_target(name);
  if (found != nullptr) return *found;
  throw ArgumentError(
      fmt::format("--target: expected {}, got {}", target_names(), printable(name)));
}

// A profile from rows of a sweep; measures nothing.
int run_from_sweeps(const Options& options) {
  if (options.target.empty() || options.export_file.empty() || !options.import_file.empty()) {
    throw ArgumentError("calibrate: --sweep expects --target and --export, and no --import");
  }
  const SweptProfile made =
      calibrate_from({options.sweeps.begin(), options.sweeps.end()}, named_target(options.target));
  write_output(options.export_file, targets::print(made.profile));
  if (options.json) {
    print_json({{"device", made.profile.device},
                {"exported", options.export_file},
                {"points", made.after.points.size()},
                {"times", made.after.expected.size()},
                {"expected_before", spread_json(made.before.expected_spread())},
                {"expected_after", spread_json(made.after.expected_spread())},
                {"chosen_before", spread_json(made.before.chosen_spread())},
                {"chosen_after", spread_json(made.after.chosen_spread())}});
    return kOk;
  }
  fmt::print("{}: {} points, {} times\n", printable(made.profile.device), made.after.points.size(),
             made.after.expected.size());
  describe("the model as it was", made.before);
  describe(kHeldOut, made.after);
  fmt::print("{}: written, fitted to all points\n", printable(options.export_file));
  return kOk;
}

void export_to(const Options& options, const std::optional<Calibration>& made,
               nlohmann::json& out) {
  write_output(options.export_file, targets::print(made ? made->profile : known_profile()));
  out["exported"] = options.export_file;
  if (!options.json) fmt::print("{}: written\n", printable(options.export_file));
}

int run(const Options& options) {
  if (!options.sweeps.empty()) return run_from_sweeps(options);
  if (!options.import_file.empty()) {
    if (!options.export_file.empty()) {
      throw ArgumentError("calibrate: expected --import or --export, got both");
    }
    const nlohmann::json out = keep(read_profile(options.import_file), options.json);
    if (options.json) print_json(out);
    return kOk;
  }
  if (options.budget_seconds == 0 && options.export_file.empty()) {
    throw ArgumentError("calibrate: expected a --budget above 0, or --export FILE, got neither");
  }
  if (!options.export_file.empty()) check_writable(options.export_file);
  if (!options.results.empty()) check_writable(std::filesystem::path(options.results) / "");
  nlohmann::json out = nlohmann::json::object();
  std::optional<Calibration> made;
  if (options.budget_seconds > 0) {
    check_before_measuring(options);
    made = measure(options);
  }
  // What was measured is not lost where only one of both can be written.
  std::exception_ptr not_exported;
  try {
    if (!options.export_file.empty()) export_to(options, made, out);
  } catch (const ArgumentError&) {
    not_exported = std::current_exception();
  }
  if (made) keep(*made, options, out);
  if (not_exported) std::rethrow_exception(not_exported);
  if (options.json) print_json(out);
  return kOk;
}

}  // namespace

std::function<int()> define_calibrate(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_budget(app, options->budget_seconds, "Of measuring, about");
  add_file(app, "--export", options->export_file,
           "Write the profile to a file, too; with --budget 0 the one that is in use");
  add_file(app, "--import", options->import_file,
           "Use the profile in such a file; measures nothing");
  CLI::Option* const sweep =
      app.add_option("--sweep", options->sweeps,
                     "Files of `epifuse bench --sweep`: fit the model to them, and judge it on "
                     "points that the fit did not see; needs no GPU")
          ->type_name("FILE");
  app.add_option("--target", options->target,
                 "Of --sweep: the target of the rows' device, as `epifuse devices` says")
      ->needs(sweep);
  add_file(app, "--results", options->results,
           "Folder whose <device>.json takes how far the model is off on products that it is "
           "not fitted to");
  app.add_option("--commit", options->commit, "What was measured, for the rows");
  app.add_flag("--json", options->json, "Print JSON");
  app.footer(
      "Measures launch costs, the rates of memory, of L2 and of products, the vendor's products\n"
      "and ours at many sizes, and fits the constants of the model of time. The profile is kept\n"
      "in the folder `profiles` of the kernel cache and goes before the one that epifuse came\n"
      "with (docs/adding-a-device.md). Nothing else should run on the GPU meanwhile.\n"
      "Examples:\n"
      "  epifuse calibrate --budget 60s --export h200.profile\n"
      "  epifuse calibrate --import h200.profile\n"
      "  epifuse calibrate --sweep rows.json --target TARGET --export card.profile");
  return [options] { return run(*options); };
}

}  // namespace epifuse::cli
