#include "tools/grade/class/lms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "common/error.hpp"
#include "common/support/text/parse_number.hpp"
#include "tools/grade/class/csv.hpp"
#include "tools/grade/grade_names.hpp"

namespace lockstep::tools {
namespace {

constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

std::size_t title_at(const std::vector<std::string>& titles, const std::string& title) {
  const auto found = std::find(titles.begin(), titles.end(), title);
  return found == titles.end() ? kNowhere : static_cast<std::size_t>(found - titles.begin());
}

/// Letters and digits, small ones: "Lee, Kim" and "leekim" are one.
std::string bare(const std::string& name) {
  std::string result;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) || (c & 0x80))
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

/// The row of the class that a line of the file belongs to; null if it is nobody's.
const ClassRow* row_of_line(const ClassData& data, const std::vector<std::string>& titles,
                            const std::vector<std::string>& line) {
  const auto cell = [&](const char* title) {
    const std::size_t at = title_at(titles, title);
    return at < line.size() ? line[at] : "";
  };
  const std::string identifier = cell("Identifier");  // "Participant 1234"
  const std::set<std::string> numbers{cell("ID"), identifier.substr(identifier.find_last_of(' ') + 1)};
  const std::string email = cell("Email address");
  std::set<std::string> names{email, email.substr(0, email.find('@'))};
  for (const char* title : {"SIS User ID", "SIS Login ID", "ID number", "Username"}) names.insert(cell(title));
  const std::set<std::string> spoken{bare(cell("Student")), bare(cell("Full name"))};
  for (const ClassRow& row : data.rows) {
    if (const auto download = read_download(row.file)) {
      if (numbers.contains(download->number)) return &row;
    } else if (names.contains(row.name) || spoken.contains(bare(row.name))) {
      return &row;
    }
  }
  return nullptr;
}

/// The assignment's column: of its name, or of its name with Canvas's number behind it.
std::size_t column_named(std::vector<std::string>& titles, const std::string& column) {
  for (std::size_t i = 0; i < titles.size(); ++i)
    if (titles[i] == column || titles[i].starts_with(column + " (")) return i;
  titles.push_back(column);
  return titles.size() - 1;
}

/// A remark if the course system counts an assignment out of other points than these results have.
std::string other_points(const std::string& name, const std::string& theirs, int most) {
  const auto points = parse_number<double>(theirs);
  if (!points || *points == most) return "";
  return fmt::format("{} counts out of {:g} points, and these results out of {}: change the assignment's points.", name,
                     *points, most);
}

/// Canvas wants its students' columns, and advises to import no column that has not changed.
Table canvas_columns(const Table& table, std::size_t filled) {
  std::vector<std::size_t> kept;
  for (const char* title : {"Student", "ID", "SIS User ID", "SIS Login ID", "Section"})
    if (const std::size_t at = title_at(table.front(), title); at != kNowhere) kept.push_back(at);
  kept.push_back(filled);
  Table result;
  for (const std::vector<std::string>& line : table) {
    result.emplace_back();
    for (const std::size_t at : kept) result.back().push_back(line[at]);
  }
  return result;
}

}  // namespace

LmsFile fill_lms(const ClassData& data, const std::string& exported, const std::string& name,
                 const std::string& column) {
  Table table = read_csv(exported);
  if (table.empty()) table.emplace_back();
  std::vector<std::string>& titles = table.front();
  const bool canvas = title_at(titles, "Student") != kNowhere && title_at(titles, "ID") != kNowhere;
  const bool moodle = title_at(titles, "Identifier") != kNowhere && title_at(titles, "Grade") != kNowhere;
  if (!canvas && !moodle)
    throw Error(Verdict::usage,
                fmt::format("{} is neither Canvas's exported gradebook (columns Student, ID, …) nor Moodle's grading "
                            "worksheet (Identifier, Grade, …).",
                            name));
  if (canvas && column.empty())
    throw Error(Verdict::usage, "--lms of a Canvas gradebook needs --column: the assignment's name.");
  const std::size_t known = titles.size(), to = column_named(titles, column.empty() ? "Grade" : column);
  int most = 0;
  for (const ClassRow& row : data.rows) most = std::max(most, row.most());
  LmsFile file{.system = canvas ? "canvas" : "moodle", .text = {}, .unplaced = {}, .notes = {}};
  const auto add_note = [&](const std::string& note) {
    if (!note.empty() && std::find(file.notes.begin(), file.notes.end(), note) == file.notes.end())
      file.notes.push_back(note);
  };
  if (to == known) add_note(fmt::format("{} has no column '{}', so the points are in a new one.", name, column));
  const std::size_t maximum = title_at(titles, "Maximum Grade");
  std::set<const ClassRow*> placed;
  for (std::size_t i = 1; i < table.size(); ++i) {
    std::vector<std::string>& line = table[i];
    line.resize(titles.size());
    if (line[0].find("Points Possible") != std::string::npos) {  // a line that is no student's
      add_note(other_points(name, line[to], most));
      if (line[to].empty()) line[to] = std::to_string(most);
      continue;
    }
    const ClassRow* row = row_of_line(data, titles, line);
    if (!row) continue;
    placed.insert(row);
    if (moodle && maximum < line.size()) add_note(other_points(name, line[maximum], most));
    if (row->graded) line[to] = fmt::format("{:g}", row->counted()), ++file.filled;
  }
  for (const ClassRow& row : data.rows)
    if (!placed.contains(&row)) file.unplaced.push_back(row.name);
  file.text = write_csv(canvas ? canvas_columns(table, to) : table, separator_of(exported));
  return file;
}

}  // namespace lockstep::tools
