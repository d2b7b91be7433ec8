#include "tools/plan/strategy_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "common/error.hpp"
#include "common/support/json/document.hpp"
#include "common/support/text/files.hpp"
#include "common/support/text/nearest.hpp"
#include "labs/trainer/plan/search.hpp"
#include "labs/week24_pipeline/schedules_by_name.hpp"

namespace lockstep::plan {

using week25::Strategy;

namespace {

const std::vector<std::string> kFields{
    "dp", "cp", "tp", "pp", "ep", "microbatch", "schedule", "chunks", "zero", "recompute", "sequence_parallel"};
constexpr const char* kExample = R"({"dp": 8, "tp": 8, "pp": 16, "microbatch": 1})";
const std::vector<std::string> kSchedules{"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dualpipev"};

int* whole_number(Strategy& s, const std::string& field) {
  if (field == "dp") return &s.dp;
  if (field == "cp") return &s.cp;
  if (field == "tp") return &s.tp;
  if (field == "pp") return &s.pp;
  if (field == "ep") return &s.ep;
  if (field == "microbatch") return &s.microbatch;
  if (field == "chunks") return &s.chunks;
  return field == "zero" ? &s.zero : nullptr;
}

[[noreturn]] void refuse(const std::string& where, const std::string& sentence) {
  throw Error(Verdict::usage, where + ": " + sentence);
}

/// One field from its JSON value.
void set(Strategy& strategy, const std::string& where, const std::string& field, const Json& value) {
  if (std::find(kFields.begin(), kFields.end(), field) == kFields.end())
    refuse(where, unknown_name("field", field, kFields));
  if (int* number = whole_number(strategy, field)) {
    const bool zero = field == "zero";
    if (!value.is_number_integer() || value < (zero ? 0 : 1) || value > (zero ? 3 : 1 << 20))
      refuse(where,
             fmt::format("{} is {}; it must be a whole number from {}", field, value.quote(), zero ? "0 to 3" : "1"));
    *number = value;
  } else if (field == "schedule") {
    const std::string name = value.is_string() ? value.get<std::string>() : value.quote();
    if (std::find(kSchedules.begin(), kSchedules.end(), name) == kSchedules.end())
      refuse(where, unknown_name("schedule", name, kSchedules));
    strategy.schedule = name;
  } else if (field == "recompute" && value.is_string()) {
    if (value != "none" && value != "full" && value != "selective")
      refuse(where, fmt::format("recompute is {}; it must be none, full, or, with materialised attention, selective",
                                value.quote()));
    strategy.recompute = value == "full";
    strategy.selective = value == "selective";
  } else {
    if (!value.is_boolean()) refuse(where, fmt::format("{} is {}; it must be true or false", field, value.quote()));
    (field == "recompute" ? strategy.recompute : strategy.sequence_parallel) = value;
  }
}

/// A field as JSON has it, where dp counts replicas.
Json value_of(Strategy strategy, const std::string& field) {
  strategy.dp = replicas(strategy);
  if (const int* number = whole_number(strategy, field)) return Json::of(*number);
  if (field == "schedule") return Json::of(strategy.schedule);
  if (field == "recompute") return Json::of(recompute_word(strategy));
  return Json::of(strategy.sequence_parallel);
}

Json parse(const std::string& path, const std::string& text) {
  try {
    return Json::parse_with_comments(text);
  } catch (const JsonError& error) {
    refuse(path, fmt::format("is not a JSON object such as {}: {}", kExample, error.what()));
  }
}

}  // namespace

const char* recompute_word(const Strategy& strategy) {
  return strategy.recompute ? "full" : strategy.selective ? "selective" : "none";
}

Strategy read_strategy(const std::string& path) { return parse_strategy(read_file(path), path); }

Strategy parse_strategy(const std::string& text, const std::string& name) {
  const Json file = parse(name, text);
  if (!file.is_object()) refuse(name, fmt::format("is not a JSON object such as {}", kExample));
  Strategy strategy;
  for (const auto& [field, value] : file.items()) set(strategy, name, field, value);
  if (week24::in_a_vee(strategy.schedule) && !file.contains("chunks")) strategy.chunks = 2;  // a V has no other number
  strategy.dp *= strategy.cp;
  return strategy;
}

std::string strategy_json(const Strategy& strategy) {
  std::vector<Json::Member> all;
  for (const std::string& field : kFields) all.push_back({field, value_of(strategy, field)});
  return Json::object(std::move(all)).dump();
}

std::vector<std::pair<std::string, std::string>> wanted_fields(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> fields;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size()), equals = text.find('=', at);
    if (equals >= end) refuse("--explain " + text, "name=value, separated by commas: dp=8,tp=8,pp=16");
    const std::string name = text.substr(at, equals - at), value = text.substr(equals + 1, end - equals - 1);
    const std::optional<Json> parsed = Json::parse_if_valid(value);
    Strategy scratch;
    set(scratch, "--explain " + text, name, parsed ? *parsed : Json::of(value));
    fields.emplace_back(name, value_of(scratch, name).dump());
    at = end + 1;
  }
  return fields;
}

bool has_fields(const Strategy& strategy, const std::vector<std::pair<std::string, std::string>>& fields) {
  return std::all_of(fields.begin(), fields.end(),
                     [&](const auto& field) { return value_of(strategy, field.first).dump() == field.second; });
}

}  // namespace lockstep::plan
