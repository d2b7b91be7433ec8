#include "tools/analyse/drill/answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>

#include "common/error.hpp"
#include "common/support/text/trim.hpp"
#include "common/support/text/units.hpp"

namespace lockstep::drill {
namespace {

std::string last_word(const std::string& text) {
  std::istringstream words(lower(text));
  std::string last;
  for (std::string word; words >> word;) last = word;
  return last;
}

/// The number at the front of `text`, and what follows it.
std::optional<double> number_before(std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || !std::isfinite(value)) return std::nullopt;
  text = trimmed(text.substr(static_cast<std::size_t>(end - text.data())));
  return value;
}

bool same_number(const std::string& text, const Truth& truth) {
  return std::abs(parse_evidence(text, truth.unit) - truth.evidence) <= truth.tolerance * std::abs(truth.evidence);
}

}  // namespace

Answer parse_answer(const std::string& text, const std::string& name) {
  Answer answer;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const auto colon = line.find(':');
    const std::string field = trimmed(line.substr(0, colon));
    std::string* value = field == "kind"        ? &answer.kind
                         : field == "rank"      ? &answer.rank
                         : field == "operation" ? &answer.operation
                         : field == "evidence"  ? &answer.evidence
                                                : nullptr;
    if (!value || colon == std::string::npos)
      throw Error(Verdict::usage, fmt::format("{}, line {}: expected 'kind:', 'rank:', 'operation:' or 'evidence:', "
                                              "not '{}'",
                                              name, number, line));
    if (!value->empty())
      throw Error(Verdict::usage, fmt::format("{}, line {}: {} is given twice", name, number, field));
    *value = trimmed(line.substr(colon + 1));
  }
  return answer;
}

double parse_evidence(const std::string& text, Unit unit) {
  std::string rest = trimmed(text);
  const std::string whole = rest;
  const auto value = number_before(rest);
  if (!value) throw Error(Verdict::usage, fmt::format("evidence: '{}' does not begin with a number", text));
  if (unit == Unit::bytes && !rest.empty()) return static_cast<double>(parse_bytes(whole));
  if (rest.empty()) return *value;
  if (unit == Unit::seconds)
    for (const auto& [word, factor] : {std::pair{"s", 1.0}, {"ms", 1e-3}, {"µs", 1e-6}, {"us", 1e-6}, {"ns", 1e-9}})
      if (rest == word) return *value * factor;
  throw Error(Verdict::usage, fmt::format("evidence: '{}' is not a unit of what is asked for: {}", rest,
                                          unit == Unit::seconds ? "s, ms or µs" : "a number alone"));
}

std::vector<FieldVerdict> judge(const Answer& answer, const Truth& truth) {
  using Is = FieldVerdict::Is;
  const auto verdict = [](const std::string& given, bool right) {
    return given.empty() ? Is::empty : right ? Is::right : Is::wrong;
  };
  const Is kind = verdict(answer.kind, lower(answer.kind) == truth.kind);
  const auto if_kind = [&](const std::string& given, auto is_right) {
    if (given.empty()) return Is::empty;
    return kind != Is::right ? Is::not_judged : is_right() ? Is::right : Is::wrong;
  };
  return {{"kind", kind},
          {"rank", verdict(answer.rank, last_word(answer.rank) == truth.rank)},
          {"operation",
           if_kind(answer.operation, [&] { return last_word(answer.operation) == last_word(truth.operation); })},
          {"evidence", if_kind(answer.evidence, [&] { return same_number(answer.evidence, truth); })}};
}

bool all_right(const std::vector<FieldVerdict>& verdicts) {
  return std::all_of(verdicts.begin(), verdicts.end(),
                     [](const FieldVerdict& v) { return v.is == FieldVerdict::Is::right; });
}

}  // namespace lockstep::drill
