// When submissions were handed in, and how late that is.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>

#include "common/error.hpp"
#include "tools/grade/class/class_data.hpp"
#include "tools/grade/grade_summary.hpp"

namespace lockstep::tools {
namespace {

/// The fields of each line; those in quotes may hold commas, line ends and, doubled, quotes (RFC 4180).
std::vector<std::vector<std::string>> read_csv(const std::string& text) {
  std::vector<std::vector<std::string>> lines(1, {""});
  bool quoted_field = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    std::string& field = lines.back().back();
    if (quoted_field && c == '"' && i + 1 < text.size() && text[i + 1] == '"')
      field += text[++i];
    else if (c == '"')
      quoted_field = !quoted_field;
    else if (c == ',' && !quoted_field)
      lines.back().emplace_back();
    else if (c == '\n' && !quoted_field)
      lines.push_back({""});
    else if (c != '\r' || quoted_field)
      field += c;
  }
  std::erase_if(lines, [](const std::vector<std::string>& line) { return line.size() == 1 && line[0].empty(); });
  return lines;
}

[[noreturn]] void no_time(std::string_view text) {
  throw Error(Verdict::usage,
              fmt::format("'{}' is no time: wanted 2026-11-20T23:59, with Z or +01:00 behind it or as UTC.", text));
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

/// Seconds that local time is ahead of UTC: "", "Z", "+01:00", "-0500".
std::int64_t take_zone(std::string_view rest, std::string_view all) {
  if (rest.empty() || rest == "Z") return 0;
  const int sign = rest[0] == '-' ? -1 : 1;
  take_one_of(rest, "+-", all);
  const int hours = take_number(rest, 2, all);
  if (rest.starts_with(':')) rest.remove_prefix(1);
  const int minutes = take_number(rest, 2, all);
  if (!rest.empty() || hours > 14 || minutes > 59) no_time(all);
  return sign * (std::int64_t{hours} * 3600 + minutes * 60);
}

std::size_t column_of(const std::vector<std::string>& titles, const std::string& title, const std::string& name) {
  const auto found = std::find(titles.begin(), titles.end(), title);
  if (found != titles.end()) return static_cast<std::size_t>(found - titles.begin());
  throw Error(Verdict::usage, fmt::format("{} has no column '{}': wanted a CSV whose first line has 'submission' and "
                                          "'time'.",
                                          name, title));
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

void add_times(ClassData& data, const std::string& csv, const std::string& name, std::int64_t deadline) {
  const std::vector<std::vector<std::string>> lines = read_csv(csv.starts_with("\xef\xbb\xbf") ? csv.substr(3) : csv);
  const std::vector<std::string> titles = lines.empty() ? std::vector<std::string>{} : lines.front();
  const std::size_t who = column_of(titles, "submission", name), when = column_of(titles, "time", name);
  data.deadline = deadline;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].size() <= std::max(who, when))
      throw Error(Verdict::usage, fmt::format("{}, line {}: it has {} columns.", name, i + 1, lines[i].size()));
    const std::string& submission = lines[i][who];
    const std::string as_graded = name_for(submission, {});  // anna.zip is called anna in the results
    const auto row = std::find_if(data.rows.begin(), data.rows.end(), [&](const ClassRow& each) {
      return each.name == submission || each.name == as_graded;
    });
    const std::int64_t time = parse_time(lines[i][when]);
    if (row == data.rows.end()) {
      data.unknown.push_back(submission);
      continue;
    }
    row->submitted = std::max(row->submitted.value_or(time), time);  // the last one counts
    row->late = std::max<std::int64_t>(0, *row->submitted - deadline);
  }
}

}  // namespace lockstep::tools
