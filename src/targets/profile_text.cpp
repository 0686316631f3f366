// A device's profile as versioned text: a line a fact, a word in front that says which.
#include "targets/profile_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include "base/printable.h"
#include "epifuse/error.h"

namespace epifuse::targets {
namespace {

constexpr std::string_view kFirstLine = "epifuse device profile 2";
constexpr std::string_view kLastLine = "end";
constexpr std::int64_t kMostSize = std::int64_t{1} << 40;
constexpr std::pair<Rows, std::string_view> kRows[] = {
    {Rows::aligned, "aligned"}, {Rows::k_major, "k_major"}, {Rows::mn_major, "mn_major"}};

std::string_view name(Rows rows) {
  return std::ranges::find(kRows, rows, &std::pair<Rows, std::string_view>::first)->second;
}

// Reads the fields of one line, which blanks are between.
class Line {
 public:
  Line(std::string_view text, std::size_t number) : rest_(text), number_(number) {}

  [[noreturn]] void fail(std::string_view expected, std::string_view came) const {
    throw ArgumentError(
        fmt::format("line {}: expected {}, got '{}'", number_, expected, printable(came)));
  }

  std::string_view word() {
    const std::size_t begin = std::min(rest_.find_first_not_of(' '), rest_.size());
    rest_.remove_prefix(begin);
    const std::string_view word = rest_.substr(0, rest_.find(' '));
    rest_.remove_prefix(word.size());
    return word;
  }

  bool has_more() const { return rest_.find_first_not_of(' ') != std::string_view::npos; }

  std::string rest() {
    const std::size_t begin = std::min(rest_.find_first_not_of(' '), rest_.size());
    return std::string(std::exchange(rest_, "").substr(begin));
  }

  double number(double least = 0) {
    const std::string_view text = word();
    double value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (!is_whole(text, read) || !std::isfinite(value) || value < least) {
      fail(least > 0 ? "a number above 0" : "a number of at least 0", text);
    }
    return value;
  }
  double positive() { return number(std::numeric_limits<double>::min()); }

  std::int64_t integer(std::int64_t least) {
    const std::string_view text = word();
    std::int64_t value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (!is_whole(text, read) || value < least || value > kMostSize) {
      fail(fmt::format("an integer from {} to 2^40", least), text);
    }
    return value;
  }

  Rows rows() {
    const std::string_view text = word();
    const auto* const found =
        std::ranges::find(kRows, text, &std::pair<Rows, std::string_view>::second);
    if (found == std::end(kRows)) fail("aligned, k_major or mn_major", text);
    return found->first;
  }

  void end() {
    const std::string left = rest();
    if (!left.empty()) fail("the end of the line", left);
  }

 private:
  static bool is_whole(std::string_view text, const std::from_chars_result& read) {
    return read.ec == std::errc() && read.ptr == text.data() + text.size();
  }

  std::string_view rest_;
  std::size_t number_;
};

void read_text(Line& line, std::string& text) {
  text = line.rest();
  if (text.empty()) line.fail("text", "");
  if (printable(text, std::string::npos) != text) {
    line.fail("text in UTF-8 without control characters", text);
  }
}

void read_limits(Line& line, DeviceLimits& limits) {
  for (int* clusters : {&limits.clusters_of_2, &limits.clusters_of_3, &limits.clusters_of_4,
                        &limits.clusters_of_8}) {
    *clusters = static_cast<int>(std::min<std::int64_t>(line.integer(1), 1 << 20));
  }
}

MeasuredProduct read_product(Line& line) {
  MeasuredProduct row{};
  for (std::int64_t* size : {&row.m, &row.n, &row.k}) *size = line.integer(1);
  row.value = line.positive();
  return row;
}

// What each first word is followed by. Those of one place may come once.
struct Fact {
  std::string_view word;
  bool is_list, is_required;
  void (*read)(Line&, StoredProfile&);
};
constexpr Fact kFacts[] = {
    {"device", false, true, [](Line& line, StoredProfile& p) { read_text(line, p.device); }},
    {"origin", false, false, [](Line& line, StoredProfile& p) { read_text(line, p.origin); }},
    {"sms", false, true,
     [](Line& line, StoredProfile& p) {
       p.limits.num_sms = static_cast<int>(std::min<std::int64_t>(line.integer(1), 1 << 20));
     }},
    {"clusters", false, true, [](Line& line, StoredProfile& p) { read_limits(line, p.limits); }},
    {"flops_per_us", false, true,
     [](Line& line, StoredProfile& p) { p.rates.flops_per_us = line.positive(); }},
    {"bytes_per_us", false, true,
     [](Line& line, StoredProfile& p) { p.rates.bytes_per_us = line.positive(); }},
    {"l2_bytes_per_us", false, false,
     [](Line& line, StoredProfile& p) { p.rates.l2_bytes_per_us = line.number(); }},
    {"start_us", false, true,
     [](Line& line, StoredProfile& p) { p.rates.start_us = line.number(); }},
    {"launch_us", false, true,
     [](Line& line, StoredProfile& p) { p.rates.launch_us = line.number(); }},
    {"rows_first", false, false,
     [](Line& line, StoredProfile& p) {
       const double slows = line.number();
       p.rows_first = RowsFirst{slows, line.integer(0)};
     }},
    {"misaligned", true, false,
     [](Line& line, StoredProfile& p) {
       MisalignedProducts row{};
       row.a = line.rows();
       row.b = line.rows();
       for (double* each : {&row.fused, &row.vendor_even, &row.vendor_odd}) {
         *each = line.positive();
       }
       for (double* each : {&row.another_8, &row.another_4, &row.another_2}) {
         if (line.has_more()) *each = line.number();
       }
       p.misaligned.push_back(row);
     }},
    {"vendor_us", true, false,
     [](Line& line, StoredProfile& p) { p.vendor_us.push_back(read_product(line)); }},
    {"bare_ratio", true, false,
     [](Line& line, StoredProfile& p) { p.bare_ratios.push_back(read_product(line)); }},
    {"constant", true, false,
     [](Line& line, StoredProfile& p) {
       StoredProfile::Constant constant{std::string(line.word()), std::string(line.word()), 0};
       constant.value = line.number();
       const auto is_same = [&](const StoredProfile::Constant& each) {
         return each.family == constant.family && each.name == constant.name;
       };
       if (std::ranges::any_of(p.constants, is_same))
         line.fail("each constant once", constant.name);
       p.constants.push_back(std::move(constant));
     }},
};

void read_line(std::string_view text, std::size_t number, std::set<std::string_view>& seen,
               StoredProfile& profile) {
  Line line(text, number);
  const std::string_view word = line.word();
  const auto* const fact = std::ranges::find(kFacts, word, &Fact::word);
  if (fact == std::end(kFacts)) {
    std::vector<std::string_view> known;
    for (const Fact& each : kFacts) known.push_back(each.word);
    line.fail(fmt::format("one of {}, {}", fmt::join(known, ", "), kLastLine), word);
  }
  if (!seen.insert(fact->word).second && !fact->is_list) line.fail(word, "it twice");
  fact->read(line, profile);
  line.end();
}

void check_whole(const std::set<std::string_view>& seen, bool is_ended) {
  for (const Fact& fact : kFacts) {
    if (fact.is_required && !seen.contains(fact.word)) {
      throw ArgumentError(fmt::format("expected a line '{} ..', got none", fact.word));
    }
  }
  if (!is_ended) throw ArgumentError("expected 'end' as the last line, got none: it is not whole");
}

}  // namespace

StoredProfile copy_of(const KnownDevice& device) {
  const Measurements& from = *device.measured;
  StoredProfile out{std::string(device.name),
                    std::string(from.origin),
                    from.limits,
                    from.rates,
                    {from.vendor_us.begin(), from.vendor_us.end()},
                    {from.bare_ratios.begin(), from.bare_ratios.end()},
                    {from.misaligned.begin(), from.misaligned.end()},
                    from.rows_first,
                    {}};
  for (const ModelConstant& each : from.constants) {
    out.constants.push_back({std::string(each.family), std::string(each.name), each.value});
  }
  return out;
}

std::string print(const StoredProfile& profile) {
  const DeviceLimits& limits = profile.limits;
  const DeviceRates& rates = profile.rates;
  std::string text = fmt::format("{}\ndevice {}\n", kFirstLine, profile.device);
  if (!profile.origin.empty()) text += fmt::format("origin {}\n", profile.origin);
  // Kernels for clusters divide by their number: where none were counted, it is 1.
  const auto counted = [](int clusters) { return std::max(clusters, 1); };
  text += fmt::format("sms {}\nclusters {} {} {} {}\n", limits.num_sms,
                      counted(limits.clusters_of_2), counted(limits.clusters_of_3),
                      counted(limits.clusters_of_4), counted(limits.clusters_of_8));
  text += fmt::format(
      "flops_per_us {}\nbytes_per_us {}\nl2_bytes_per_us {}\nstart_us {}\nlaunch_us {}\n",
      rates.flops_per_us, rates.bytes_per_us, rates.l2_bytes_per_us, rates.start_us,
      rates.launch_us);
  if (profile.rows_first) {
    text += fmt::format("rows_first {} {}\n", profile.rows_first->gather_slows,
                        profile.rows_first->fewest_rows);
  }
  for (const MisalignedProducts& row : profile.misaligned) {
    text += fmt::format("misaligned {} {} {} {} {}", name(row.a), name(row.b), row.fused,
                        row.vendor_even, row.vendor_odd);
    const bool is_whole = row.another_8 != 0 || row.another_4 != 0 || row.another_2 != 0;
    if (is_whole) text += fmt::format(" {} {} {}", row.another_8, row.another_4, row.another_2);
    text += "\n";
  }
  for (const MeasuredProduct& row : profile.vendor_us) {
    text += fmt::format("vendor_us {} {} {} {}\n", row.m, row.n, row.k, row.value);
  }
  for (const MeasuredProduct& row : profile.bare_ratios) {
    text += fmt::format("bare_ratio {} {} {} {}\n", row.m, row.n, row.k, row.value);
  }
  for (const StoredProfile::Constant& each : profile.constants) {
    text += fmt::format("constant {} {} {}\n", each.family, each.name, each.value);
  }
  return text + fmt::format("{}\n", kLastLine);
}

StoredProfile parse_profile(std::string_view text) {
  StoredProfile profile;
  std::set<std::string_view> seen;
  bool is_ended = false;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    if (number == 1 && line != kFirstLine) {
      Line(line, 1).fail(fmt::format("'{}'", kFirstLine), line);
    }
    if (number == 1 || line.empty() || line.starts_with('#')) continue;
    if (is_ended) Line(line, number).fail("nothing behind 'end'", line);
    if (line == kLastLine) {
      is_ended = true;
    } else {
      read_line(line, number, seen, profile);
    }
  }
  check_whole(seen, is_ended);
  return profile;
}

}  // namespace epifuse::targets
