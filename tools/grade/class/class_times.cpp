// When submissions were handed in, and how late that is.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>

#include "common/error.hpp"
#include "common/support/text/parse_number.hpp"
#include "tools/grade/class/class_data.hpp"
#include "tools/grade/class/csv.hpp"
#include "tools/grade/grade_summary.hpp"

namespace lockstep::tools {
namespace {

[[noreturn]] void no_time(std::string_view text) {
  throw Error(
      Verdict::usage,
      fmt::format("'{}' is not a time: expected 2026-11-20T23:59, followed by Z or +01:00; without them it is UTC.",
                  text));
}

/// Takes a number of so many digits off the front.
int take_number(std::string_view& rest, std::size_t digits, std::string_view all) {
  int value = 0;
  const char* end = rest.data() + std::min(digits, rest.size());
  if (rest.size() < digits || std::from_chars(rest.data(), end, value).ptr != end || rest[0] == '-') no_time(all);
  rest.remove_prefix(digits);
  return value;
}
void take_one_of(std::string_view& rest, std::string_view known, std::string_view all) {
  if (rest.empty() || known.find(rest[0]) == known.npos) no_time(all);
  rest.remove_prefix(1);
}

/// Seconds that local time is ahead of UTC: "", "Z", "+01:00", "-0500", " +0100".
std::int64_t take_zone(std::string_view rest, std::string_view all) {
  if (rest.starts_with(' ')) rest.remove_prefix(1);
  if (rest.empty() || rest == "Z") return 0;
  const int sign = rest[0] == '-' ? -1 : 1;
  take_one_of(rest, "+-", all);
  const int hours = take_number(rest, 2, all);
  if (rest.starts_with(':')) rest.remove_prefix(1);
  const int minutes = take_number(rest, 2, all);
  if (!rest.empty() || hours > 14 || minutes > 59) no_time(all);
  return sign * (std::int64_t{hours} * 3600 + minutes * 60);
}

/// A CSV whose first line has titles: what the others have in two of the columns.
std::vector<std::pair<std::string, std::string>> pairs_of(const std::string& csv, const std::string& name,
                                                          const std::string& key, const std::string& value) {
  const Table lines = read_csv(csv);
  const std::vector<std::string> titles = lines.empty() ? std::vector<std::string>{} : lines.front();
  const auto column = [&](const std::string& title) {
    const auto found = std::find(titles.begin(), titles.end(), title);
    if (found != titles.end()) return static_cast<std::size_t>(found - titles.begin());
    throw Error(
        Verdict::usage,
        fmt::format(
            "{} has no column '{}': expected a CSV, with commas or semicolons, whose first line has '{}' and '{}'.",
            name, title, key, value));
  };
  const std::size_t who = column(key), what = column(value);
  std::vector<std::pair<std::string, std::string>> pairs;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].size() <= std::max(who, what))
      throw Error(Verdict::usage, fmt::format("{}, line {}: it has {} columns.", name, i + 1, lines[i].size()));
    pairs.emplace_back(lines[i][who], lines[i][what]);
  }
  return pairs;
}

/// The row of a submission as a CSV names it: anna.zip is called anna in the results. Null where there is none.
ClassRow* row_named(ClassData& data, const std::string& submission) {
  const std::string as_graded = name_for(submission, {});
  for (ClassRow& row : data.rows)
    if (row.name == submission || row.name == as_graded) return &row;
  return nullptr;
}

/// "0.5", or "0,5" as a table with semicolons has it.
double days_of(const std::string& text, const std::string& name) {
  std::string number = text;
  std::replace(number.begin(), number.end(), ',', '.');
  const auto days = parse_number<double>(number);
  if (!days || !(*days >= 0 && *days <= 365))
    throw Error(Verdict::usage, fmt::format("{}: '{}' is not a number of days from 0 to 365.", name, text));
  return *days;
}

std::int64_t time_of(const std::string& submission, const std::string& text, const std::string& name) {
  try {
    return parse_time(text);
  } catch (const Error& error) {
    throw Error(error.verdict(), fmt::format("{}, {}: {}", name, submission, error.what()));
  }
}

constexpr std::int64_t kDay = 86'400;

/// Once, also where a CSV has several lines of it.
void add_unknown(ClassData& data, const std::string& submission, const char* why) {
  const std::pair<std::string, std::string> found{submission, why};
  if (std::find(data.unknown.begin(), data.unknown.end(), found) == data.unknown.end()) data.unknown.push_back(found);
}

}  // namespace

std::int64_t parse_time(std::string_view text) {
  std::string_view rest = text;
  const int year = take_number(rest, 4, text);
  take_one_of(rest, "-", text);
  const int month = take_number(rest, 2, text);
  take_one_of(rest, "-", text);
  const std::chrono::year_month_day day{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                        std::chrono::day(static_cast<unsigned>(take_number(rest, 2, text)))};
  take_one_of(rest, "T ", text);
  const int hours = take_number(rest, 2, text);
  take_one_of(rest, ":", text);
  const int minutes = take_number(rest, 2, text);
  int seconds = 0;
  if (rest.starts_with(':')) rest.remove_prefix(1), seconds = take_number(rest, 2, text);
  if (rest.starts_with('.'))  // parts of a second, as some exports have them
    rest.remove_prefix(std::min(rest.find_first_not_of("0123456789", 1), rest.size()));
  if (!day.ok() || hours > 23 || minutes > 59 || seconds > 60) no_time(text);
  const std::int64_t days = std::chrono::sys_days(day).time_since_epoch().count();
  return days * 86'400 + hours * 3600 + minutes * 60 + seconds - take_zone(rest, text);
}

std::string describe_delay(std::int64_t seconds) {
  const std::int64_t minutes = (seconds + 59) / 60;
  if (minutes < 60) return fmt::format("{} min", minutes);
  if (minutes < 24 * 60) return fmt::format("{} h {} min", minutes / 60, minutes % 60);
  return fmt::format("{} d {} h", minutes / (24 * 60), minutes / 60 % 24);
}

void add_extensions(ClassData& data, const std::string& csv, const std::string& name) {
  for (const auto& [submission, days] : pairs_of(csv, name, "submission", "days")) {
    const double extension = days_of(days, name);
    if (ClassRow* row = row_named(data, submission))
      row->extension_days = extension;
    else
      add_unknown(data, submission, "has an extension, but there are no results");
  }
}

void add_times(ClassData& data, const std::string& csv, const std::string& name, std::int64_t deadline) {
  data.deadline = deadline;
  for (const auto& [submission, text] : pairs_of(csv, name, "submission", "time")) {
    const std::int64_t time = time_of(submission, text, name);
    ClassRow* row = row_named(data, submission);
    if (!row) {
      add_unknown(data, submission, "handed in, but there are no results");
      continue;
    }
    row->submitted = std::max(row->submitted.value_or(time), time);  // the last one counts
    const auto extension = static_cast<std::int64_t>(row->extension_days * kDay);
    row->late = std::max<std::int64_t>(0, *row->submitted - deadline - extension);
  }
}

std::vector<std::string> without_results(const ClassData& data) {
  std::vector<std::string> names;
  for (const auto& [name, why] : data.unknown)
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

std::vector<std::string> without_time(const ClassData& data) {
  std::vector<std::string> names;
  for (const ClassRow& row : data.rows)
    if (data.deadline && !row.submitted) names.push_back(row.name);
  return names;
}

void add_policy(ClassData& data, const LatePolicy& policy,
                const std::vector<std::pair<std::string, std::string>>& earlier) {
  data.policy = policy;
  for (ClassRow& row : data.rows) row.grace_left = policy.grace_days;
  for (const auto& [csv, name] : earlier)
    for (const auto& [submission, days] : pairs_of(csv, name, "submission", "grace"))
      if (ClassRow* row = row_named(data, submission))
        row->grace_left = std::max(0, row->grace_left - static_cast<int>(days_of(days, name)));
  for (ClassRow& row : data.rows) {
    const int days = static_cast<int>((row.late + kDay - 1) / kDay);
    row.grace_used = std::min(days, row.grace_left);
    row.lost_share = std::min(1.0, policy.percent_per_day / 100 * (days - row.grace_used));
  }
}

}  // namespace lockstep::tools
