// Measured choices as one text, to take from machine to machine.
#include "tune/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/printable.h"
#include "epifuse/error.h"

namespace epifuse::tune {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kExchangeFormat = "epifuse tuned choices 1";
constexpr std::size_t kKeyChars = 64;

bool is_key(std::string_view text) {
  return text.size() == kKeyChars &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string text_of(const Json& choice, const char* field, std::size_t number) {
  const auto found = choice.find(field);
  if (found != choice.end() && found->is_string()) return found->get<std::string>();
  throw ArgumentError(fmt::format("choice {}: expected a text as '{}', got {}", number, field,
                                  found == choice.end() ? "none" : printable(found->dump())));
}

// A time, which texts of before did not have.
double time_of(const Json& choice, const char* field, std::size_t number) {
  const auto found = choice.find(field);
  if (found == choice.end()) return 0;
  if (found->is_number() && found->get<double>() >= 0) return found->get<double>();
  throw ArgumentError(fmt::format("choice {}: expected microseconds as '{}', got {}", number, field,
                                  printable(found->dump())));
}

TuneStore::Entry entry_of(const Json& choice, std::size_t number) {
  if (!choice.is_object()) {
    throw ArgumentError(
        fmt::format("choice {}: expected an object, got {}", number, printable(choice.dump())));
  }
  TuneStore::Entry entry{text_of(choice, "key", number),
                         text_of(choice, "for", number),
                         {text_of(choice, "choice", number), text_of(choice, "measured", number),
                          time_of(choice, "us", number), time_of(choice, "framework_us", number),
                          time_of(choice, "padded_us", number)},
                         0,
                         true};
  if (!is_key(entry.key)) {
    throw ArgumentError(fmt::format("choice {}: expected 64 hexadecimal digits as 'key', got '{}'",
                                    number, printable(entry.key)));
  }
  return entry;
}

// Copies and prints of a value call themselves for each level of it.
bool refuse_depth(int depth, Json::parse_event_t, Json&) {
  constexpr int kMostDepth = 64;
  if (depth <= kMostDepth) return true;
  throw ArgumentError(fmt::format(
      "expected JSON of the format \"{}\", got more than {} levels of lists and objects",
      kExchangeFormat, kMostDepth));
}

std::vector<TuneStore::Entry> entries_of(std::string_view text) {
  const Json all = Json::parse(text, refuse_depth, /*allow_exceptions=*/false);
  const bool is_object = all.is_object();
  const Json format = is_object ? all.value("format", Json()) : Json();
  if (format != kExchangeFormat) {
    throw ArgumentError(
        fmt::format("expected JSON of the format \"{}\", as `epifuse tune --export` writes it, got "
                    "{}",
                    kExchangeFormat, is_object ? printable(format.dump()) : "other text"));
  }
  const Json choices = all.value("choices", Json());
  if (!choices.is_array()) throw ArgumentError("expected a list as 'choices'");
  std::vector<TuneStore::Entry> entries;
  for (const Json& choice : choices) entries.push_back(entry_of(choice, entries.size() + 1));
  return entries;
}

}  // namespace

std::string export_choices(const TuneStore& store) {
  std::vector<TuneStore::Entry> entries = store.list();
  std::erase_if(entries, [](const TuneStore::Entry& entry) { return !entry.valid; });
  std::ranges::sort(entries, {}, &TuneStore::Entry::key);
  std::string text = fmt::format("{{\"format\": \"{}\", \"choices\": [", kExchangeFormat);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const TuneStore::Entry& entry = entries[i];
    Json choice{{"key", entry.key},
                {"for", entry.description},
                {"choice", entry.tuned.choice},
                {"measured", entry.tuned.measured}};
    if (entry.tuned.framework_us > 0 || entry.tuned.padded_us > 0) {
      choice["us"] = entry.tuned.us;
      choice["framework_us"] = entry.tuned.framework_us;
      choice["padded_us"] = entry.tuned.padded_us;
    }
    text += fmt::format("{}\n{}", i == 0 ? "" : ",",
                        choice.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  return text + "\n]}\n";
}

Imported import_choices(std::string_view text, const TuneStore& store) {
  Imported imported;
  for (const TuneStore::Entry& entry : entries_of(text)) {
    const std::optional<Tuned> known = store.load(entry.key);
    const bool is_known = known.has_value();
    if (!is_known) store.keep(entry.key, entry.tuned, entry.description);
    if (is_known && known->choice != entry.tuned.choice) ++imported.differ;
    ++(is_known ? imported.known : store.load(entry.key) ? imported.added : imported.lost);
  }
  return imported;
}

}  // namespace epifuse::tune
