#include "tools/grade/class/class_page.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "common/support/json/escape.hpp"
#include "common/support/text/counted.hpp"
#include "common/testing/verdict.hpp"
#include "tools/grade/class/feedback.hpp"
#include "tools/grade/grade_summary.hpp"
#include "tools/grade/html.hpp"

namespace lockstep::tools {
namespace {

constexpr std::size_t kMostFailures = 12, kMostPairs = 30;

const GradedRow* part_of(const ClassRow& row, const std::string& id) {
  for (const GradedRow& part : row.parts)
    if (part.id == id) return &part;
  return nullptr;
}

std::string share(int of, int all) { return fmt::format("{:.0f}%", all == 0 ? 0.0 : 100.0 * of / all); }

std::string late_words(const ClassRow& row) {
  std::string text = row.late > 0 ? "late by " + describe_delay(row.late) : "";
  const auto add = [&](const std::string& words) { text += (text.empty() ? "" : ", ") + words; };
  if (row.extension_days > 0) add(fmt::format("{:g} d of extension", row.extension_days));
  if (row.grace_used > 0) add(fmt::format("{} of {}", row.grace_used, counted(row.grace_left, "grace day")));
  if (row.lost_share > 0) add(fmt::format("−{:g}%", 100 * row.lost_share));
  return text;
}

/// Between the two in the middle, where there are two.
double median_of(std::vector<int> points) {
  if (points.empty()) return 0;
  std::sort(points.begin(), points.end());
  const std::size_t half = points.size() / 2;
  return points.size() % 2 == 1 ? points[half] : (points[half - 1] + points[half]) / 2.0;
}

std::string overview(const ClassData& data) {
  std::vector<int> points;
  int most = 0, late = 0;
  for (const ClassRow& row : data.rows) {
    if (row.graded) points.push_back(row.points()), most = std::max(most, row.most());
    late += row.late > 0;
  }
  std::string text;
  if (!data.not_graded_yet.empty())
    text = fmt::format("<p class=\"open\"><b>{}.</b> Not graded yet: {}.</p>\n", so_far(data),
                       for_html(fmt::format("{}", fmt::join(data.not_graded_yet, ", "))));
  text += fmt::format("<p>{}, {} of them graded; median {:g} of {} points.", counted(data.rows.size(), "submission"),
                      points.size(), median_of(points), most);
  if (data.deadline) text += fmt::format(" {} late.", late);
  text += "</p>\n";
  std::map<std::string, std::size_t> settings;
  for (const ClassRow& row : data.rows)
    if (!row.setting.empty()) ++settings[row.setting];
  for (const auto& [setting, count] : settings)
    text += fmt::format("<p class=\"open\">How {} graded: {}</p>\n",
                        count == 1 ? "1 submission was" : fmt::format("{} submissions were", count), for_html(setting));
  if (const std::vector<std::string> names = without_time(data); !names.empty()) {
    std::vector<std::string> shown;
    for (const std::string& name : names) shown.push_back(name_in_html(name));
    text += fmt::format("<p class=\"open\">{} without a time, which counts as in time: {}.</p>\n",
                        counted(names.size(), "submission"), fmt::join(shown, ", "));
  }
  return text;
}

std::string doubts(const ClassData& data) {
  std::string rows;
  for (const ClassRow& row : data.rows)
    for (const std::string& doubt : doubts_of(row))
      rows += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", name_in_html(row.name), for_html(doubt));
  for (const auto& [name, why] : data.unknown)
    rows += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", name_in_html(name), for_html(why));
  if (rows.empty()) return "";
  return fmt::format(
      "<h2>Check these first: refused, not submitted, or not graded</h2>\n<div class=\"wide\"><table>\n"
      "<tr><th>submission</th><th>why</th></tr>\n{}</table></div>\n",
      rows);
}

/// A bar for each tenth of the points. It is as wide as a telephone's screen, so that its letters are never scaled.
std::string chart(const ClassData& data) {
  constexpr int kRow = 22, kLeft = 66, kLongest = 240, kWidth = 340;
  const std::vector<int> bins = distribution(data);
  const int highest = std::max(1, *std::max_element(bins.begin(), bins.end()));
  std::string bars;
  for (int i = 0; i < 10; ++i) {
    const int count = bins[static_cast<std::size_t>(9 - i)], length = kLongest * count / highest, y = i * kRow;
    const int low = 10 * (9 - i), high = i == 0 ? 100 : low + 9;
    bars += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}–{}%</text>", kLeft - 6, y + 15, low, high);
    bars += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>", kLeft, y + 2, length, kRow - 4);
    if (count > 0) bars += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>", kLeft + length + 6, y + 15, count);
  }
  return fmt::format(
      "<h2>Submissions by their share of the points</h2>\n"
      "<svg viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\"><title>submissions by their share of the "
      "points, in per cent</title>{2}</svg>\n",
      kWidth, 10 * kRow, bars);
}

/// Joins the parts of an exercise that say the same, such as those of a file that does not compile: "21.2a, 21.2b,
/// 21.2".
std::vector<PartCount> joined(const std::vector<PartCount>& parts) {
  std::vector<PartCount> rows;
  for (const PartCount& part : parts) {
    const auto same = std::find_if(rows.begin(), rows.end(), [&](const PartCount& row) {
      return testing::exercise_of(row.id.substr(0, row.id.find(','))) == testing::exercise_of(part.id) &&
             row.commonest == part.commonest && row.of_these == part.of_these && row.failed == part.failed &&
             row.passed == part.passed && row.missing == part.missing;
    });
    if (same == rows.end())
      rows.push_back(part);
    else
      same->id += ", " + part.id, same->title.clear();
  }
  return rows;
}

/// A table, and where its rows are more than `most`, how many more, to be unfolded.
std::string long_table(const std::string& head, const std::vector<std::string>& rows, std::size_t most) {
  const auto table = [&](std::size_t begin, std::size_t end) {
    return fmt::format("<div class=\"wide\"><table>\n{}{}</table></div>\n", head,
                       fmt::join(rows.begin() + static_cast<std::ptrdiff_t>(begin),
                                 rows.begin() + static_cast<std::ptrdiff_t>(end), ""));
  };
  const std::size_t shown = std::min(most, rows.size());
  if (shown == rows.size()) return table(0, shown);
  return table(0, shown) + fmt::format("<details><summary>{} more</summary>\n{}</details>\n", rows.size() - shown,
                                       table(shown, rows.size()));
}

/// Failures by part; the one that most students have comes first.
std::string failures(const ClassData& data) {
  std::vector<PartCount> counts = joined(count_parts(data));
  std::erase_if(counts, [](const PartCount& count) { return count.failed == 0; });
  std::stable_sort(counts.begin(), counts.end(),
                   [](const PartCount& a, const PartCount& b) { return a.failed > b.failed; });
  if (counts.empty()) return "";
  std::vector<std::string> rows;
  for (const PartCount& c : counts)
    rows.push_back(
        fmt::format("<tr><td>{} {}</td><td class=\"n\">{} of {} ({})</td><td class=\"n\">{}</td>"
                    "<td class=\"long\">{}</td><td class=\"n\">{} of {}</td></tr>\n",
                    for_html(c.id), for_html(c.title), c.failed, c.submitted(), share(c.failed, c.submitted()),
                    c.missing, for_html(c.commonest), c.of_these, c.failed));
  return "<h2>Most common failures</h2>\n" +
         long_table(
             "<tr><th>part</th><th class=\"n\">failed, of those who tried</th>"
             "<th class=\"n\">not tried</th><th>most common message</th><th class=\"n\">how many got it</th></tr>\n",
             rows, kMostFailures);
}

/// "22.2 (all parts together)" for a row that counts only these tests.
std::string label_of(const std::vector<PartCount>& parts, const std::string& id) {
  const bool together = std::any_of(parts.begin(), parts.end(), [&](const PartCount& part) {
    return part.id != id && testing::exercise_of(part.id) == id;
  });
  return together ? id + " (all parts together)" : id;
}

/// A column of an exercise, or of a single part, and what its cells say.
struct Column {
  std::string id, label, title;
  std::vector<std::string> parts;
  int most = 0;
};
std::vector<Column> table_columns(const std::vector<PartCount>& parts, bool exercises) {
  std::vector<Column> columns;
  for (const PartCount& part : parts) {
    const std::string id = exercises ? std::string(testing::exercise_of(part.id)) : part.id;
    if (columns.empty() || columns.back().id != id)
      columns.push_back({.id = id, .label = exercises ? id : label_of(parts, id), .title = {}, .parts = {}});
    columns.back().title += fmt::format("{}{} {}", columns.back().parts.empty() ? "" : "; ", part.id, part.title);
    columns.back().parts.push_back(part.id), columns.back().most += part.most;
  }
  return columns;
}

/// Points of `row` in a column, and its parts' verdicts; nothing where none of them was graded.
struct Cell {
  int points = 0, passed = 0, absent = 0, refused = 0, count = 0;
  std::string verdicts;
};
Cell cell_of(const ClassRow& row, const Column& column) {
  Cell cell;
  for (const std::string& id : column.parts)
    if (const GradedRow* part = part_of(row, id)) {
      ++cell.count, cell.points += part->points, cell.passed += part->verdict == "PASS";
      cell.absent += part->verdict == "NOT SUBMITTED", cell.refused += part->verdict == "REFUSED";
      cell.verdicts += fmt::format("{}{} {}", cell.verdicts.empty() ? "" : ", ", id, part->verdict);
    }
  return cell;
}

std::string points_cell(const ClassRow& row, const Column& column) {
  const Cell cell = cell_of(row, column);
  if (cell.count == 0) return "<td></td>";
  const char* kind = cell.passed == cell.count   ? "good"
                     : cell.absent == cell.count ? "soft"
                     : cell.refused > 0          ? "open"
                     : cell.passed > 0           ? "some"
                                                 : "bad";
  return fmt::format("<td class=\"n {}\" title=\"{}\">{}</td>", kind, for_html(cell.verdicts),
                     cell.absent == cell.count ? "–" : std::to_string(cell.points));
}

/// The mean of the submissions that were graded, by column and in all.
std::string mean_row(const ClassData& data, const std::vector<Column>& columns) {
  const auto mean = [&](const auto& points_of) {
    double sum = 0;
    int count = 0;
    for (const ClassRow& row : data.rows)
      if (row.graded) sum += points_of(row), ++count;
    return count == 0 ? 0.0 : sum / count;
  };
  std::string text = fmt::format("<tr><th>mean</th><th class=\"n\">{:.1f}</th>",
                                 mean([](const ClassRow& row) { return row.points(); }));
  if (data.deadline)
    text +=
        fmt::format("<th></th><th class=\"n\">{:.1f}</th>", mean([](const ClassRow& row) { return row.counted(); }));
  for (const Column& column : columns)
    text += fmt::format("<th class=\"n\">{:.1f}</th>",
                        mean([&](const ClassRow& row) { return cell_of(row, column).points; }));
  return text + "</tr>\n";
}

/// A row for each submission, with a column for each exercise, or for each part.
std::string table(const ClassData& data, const std::string& feedback, const std::vector<Column>& columns) {
  std::string text = "<div class=\"wide\"><table>\n<tr><th>submission</th><th class=\"n\">sum</th>";
  if (data.deadline) text += "<th>late</th><th class=\"n\">counted</th>";
  for (const Column& column : columns)
    text += fmt::format("<th class=\"n\" title=\"{}\">{}<br><span class=\"soft\">{}</span></th>",
                        for_html(column.title), for_html(column.label), column.most);
  text += "</tr>\n";
  const std::vector<std::string> files = feedback_files(data);
  for (std::size_t i = 0; i < data.rows.size(); ++i) {
    const ClassRow& row = data.rows[i];
    std::string name = name_in_html(row.name);
    if (!feedback.empty()) name = fmt::format("<a href=\"{}/{}\">{}</a>", feedback, for_url(files[i]), name);
    text += fmt::format("<tr><td>{}</td><td class=\"n\">{}</td>", name,
                        row.graded ? std::to_string(row.points()) : "<span class=\"open\">not graded</span>");
    if (data.deadline)
      text += fmt::format("<td class=\"mid {}\">{}</td><td class=\"n\">{:g}</td>", row.late > 0 ? "bad" : "soft",
                          late_words(row), row.counted());
    for (const Column& column : columns) text += points_cell(row, column);
    text += "</tr>\n";
  }
  return text + mean_row(data, columns) + "</table></div>\n";
}

std::string tables(const ClassData& data, const std::string& feedback) {
  const std::vector<PartCount> parts = count_parts(data);
  const std::vector<Column> exercises = table_columns(parts, true), every = table_columns(parts, false);
  std::string text = "<h2>Points</h2>\n" + table(data, feedback, exercises);
  if (every.size() > exercises.size())
    text += "<details><summary>Points of every part</summary>\n" + table(data, feedback, every) + "</details>\n";
  return text;
}

/// "Identical files: ddp.cpp in 5 of 5 (anna, ben, …)."
std::string identical(const ClassData& data) {
  constexpr std::size_t kMostNames = 6;
  std::vector<std::string> files;
  for (const SharedFile& shared : identical_files(data)) {
    std::vector<std::string> names;
    for (const std::string& name : shared.names)
      if (names.size() < kMostNames) names.push_back(name_in_html(name));
    if (shared.names.size() > kMostNames) names.emplace_back("…");
    files.push_back(fmt::format("{} in {} of {} ({})", for_html(shared.file), shared.names.size(), data.rows.size(),
                                fmt::join(names, ", ")));
  }
  return files.empty() ? "" : fmt::format("<p>Identical files: {}.</p>\n", fmt::join(files, "; "));
}

/// Pairs of answers that have much in common: none where nobody's were compared.
std::string similar(const ClassData& data) {
  std::vector<Answers> answers;
  for (const ClassRow& row : data.rows) answers.push_back(row.answers);
  std::vector<std::string> rows;
  for (const SimilarPair& pair : similar_pairs(answers)) {
    std::string shared;
    for (const auto& each : pair.shared)
      shared += fmt::format("{}{} <b>{:.0f}%</b> <span class=\"soft\">({} of {})</span>", shared.empty() ? "" : ", ",
                            for_html(each.exercise), 100 * each.share, each.common, each.of);
    rows.push_back(fmt::format("<tr><td>{}</td><td class=\"mid\">{}</td><td class=\"mid\">{}</td></tr>\n",
                               name_in_html(data.rows[pair.first].name), name_in_html(data.rows[pair.second].name),
                               shared));
  }
  const std::string same = identical(data);
  if (rows.empty()) return same.empty() ? "" : "<h2>Similar answers</h2>\n" + same;
  return "<h2>Similar answers</h2>\n" + same +
         fmt::format(
             "<p>Pairs with at least {:.0f}% of the shorter answer in common, whatever their "
             "variables are called, beside the skeleton and what more than a third of the class, and more than "
             "three, have. Compare the files before you judge: a short answer leaves little choice.</p>\n",
             100 * kStandsOut) +
         long_table("<tr><th>submission</th><th>and</th><th>exercise, and share in common</th></tr>\n", rows,
                    kMostPairs);
}

/// "Class results: week 21", or of several weeks.
std::string heading(const ClassData& data) {
  std::vector<std::string> weeks;
  for (const PartCount& part : count_parts(data)) {
    const std::string week = part.id.substr(0, part.id.find('.'));
    if (std::find(weeks.begin(), weeks.end(), week) == weeks.end()) weeks.push_back(week);
  }
  return weeks.empty() ? "Class results"
                       : fmt::format("Class results: week{} {}", weeks.size() > 1 ? "s" : "", fmt::join(weeks, ", "));
}

/// The first message to each submission, folded away.
std::string reasons(const ClassData& data) {
  std::string text = "<h2>Why, submission by submission</h2>\n";
  for (const ClassRow& row : data.rows) {
    std::string items;
    for (const Said& said : said_once(row.parts))
      if (!said.why.empty())
        items += fmt::format("<li>{} <span class=\"bad\">{}</span> {}</li>\n", for_html(said.ids),
                             for_html(said.verdict), for_html(said.why));
    if (items.empty()) continue;
    text += fmt::format("<details><summary>{}</summary>\n<ul>\n{}</ul></details>\n", name_in_html(row.name), items);
  }
  return text;
}

}  // namespace

std::string class_page(const ClassData& data, const std::string& feedback) {
  const std::string title = heading(data);
  return html_page(title, fmt::format("<h1>{}</h1>\n", for_html(title)) + overview(data) + doubts(data) + chart(data) +
                              failures(data) + tables(data, feedback) + similar(data) + reasons(data));
}

std::string so_far(const ClassData& data) {
  return fmt::format("{} of {} graded so far", data.rows.size(), data.rows.size() + data.not_graded_yet.size());
}

std::string class_csv(const ClassData& data) {
  const std::vector<PartCount> parts = count_parts(data);
  std::string csv = "submission,points,most,graded,late,grace,counted";
  for (const PartCount& part : parts) csv += "," + for_csv(label_of(parts, part.id));
  csv += "\n";
  for (const ClassRow& row : data.rows) {
    csv += fmt::format("{},{},{},{},{},{},{:g}", for_csv(row.name), row.points(), row.most(), row.graded ? "yes" : "no",
                       for_csv(late_words(row)), row.grace_used, row.counted());
    for (const PartCount& part : parts) {
      const GradedRow* found = part_of(row, part.id);
      csv += "," + (found ? std::to_string(found->points) : "");
    }
    csv += "\n";
  }
  return utf8(csv);
}

}  // namespace lockstep::tools
