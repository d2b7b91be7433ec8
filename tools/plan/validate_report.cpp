#include "tools/plan/validate_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/support/json/results.hpp"
#include "common/support/text/units.hpp"
#include "tools/plan/validate.hpp"

namespace lockstep::plan {

namespace {

double percent(double predicted, double published) { return 100 * (predicted / published - 1); }

std::string format_value(double value, const std::string& unit) {
  return unit == "s" ? format_seconds(value) : fmt::format("{:.4f}", value);
}

void print_table(const ValidatedTable& table) {
  fmt::print("\n{}: {}\n", table.name, table.source);
  if (table.overlap_assumed)
    fmt::print(
        "Its source does not say what was overlapped: exposed collectives are not modelled for this software.\n");
  fmt::print("{:<44} {:>10} {:>8} {:>8} {:>10} {:>8}\n", "", "published", "simple", "file", "libraries", "error");
  for (const Validated& row : table.rows)
    fmt::print("{:<44} {:>10} {:>+7.1f}% {:>+7.1f}% {:>10} {:>+7.1f}%  {}{}\n", row.name,
               format_value(row.published, table.unit), percent(row.simple, row.published),
               percent(row.file, row.published), format_value(row.library, table.unit), 100 * row.error(), row.chosen,
               row.other > 0
                   ? fmt::format("{}or {:+.1f}%", row.chosen.empty() ? "" : "; ", percent(row.other, row.published))
                   : "");
}

void print_summary(const std::vector<ValidatedTable>& tables) {
  fmt::print("\n|predicted / published − 1| in %{:>28} {:>24} {:>24}\n", "simple arithmetic", "by the machine file",
             "by its libraries");
  fmt::print("{:<24} {:>6} {:>9} {:>7} {:>7} {:>9} {:>7} {:>7} {:>8} {:>7} {:>7}\n", "", "points", "median", "mean",
             "worst", "median", "mean", "worst", "median", "mean", "worst");
  std::size_t points = 0;
  for (const ValidatedTable& table : tables) {
    fmt::print("{:<24} {:>6}", table.name, table.rows.size());
    for (double Validated::*predicted : {&Validated::simple, &Validated::file, &Validated::library}) {
      const Deviation off = deviation(table, predicted);
      fmt::print(" {:>9.1f} {:>7.1f} {:>7.1f}", 100 * off.median, 100 * off.mean, 100 * off.worst);
    }
    fmt::print("\n");
    points += table.rows.size();
  }
  fmt::print(
      "{} points. For comparison: Calculon (SC '23) is off by 3.65% on average and 8.9% at worst for the runs of "
      "megatron-recomputation.\n",
      points);
}

/// Training runs and sums whose duration is predicted too short, of all: fair predictions have as many too long.
void print_signs(const std::vector<ValidatedTable>& tables) {
  std::vector<std::pair<const ValidatedTable*, const Validated*>> points;
  std::size_t fast = 0;
  for (const ValidatedTable& table : tables)
    for (const Validated& point : table.rows)
      if (table.unit == "s") {
        points.emplace_back(&table, &point);
        fast += point.error() < 0;
      }
  if (points.empty()) return;
  const auto worse = [](const auto& a, const auto& b) {
    return std::abs(a.second->error()) > std::abs(b.second->error());
  };
  std::sort(points.begin(), points.end(), worse);
  fmt::print("Of {} durations {} are predicted too short and {} too long; half are within {:.1f}%.\n", points.size(),
             fast, points.size() - fast, 100 * std::abs(points[points.size() / 2].second->error()));
  const auto between = std::count_if(points.begin(), points.end(), [](const auto& p) { return p.second->bracketed(); });
  const auto open = std::count_if(points.begin(), points.end(), [](const auto& p) { return p.second->other > 0; });
  if (open > 0) fmt::print("Of {} whose source leaves something open {} lie between its cases.\n", open, between);
  fmt::print("The worst five:\n");
  for (std::size_t i = 0; i < std::min<std::size_t>(5, points.size()); ++i) {
    const auto& [table, point] = points[i];
    fmt::print("{:>+7.1f}%  {}, {}: {}\n", 100 * point->error(), table->name, point->name,
               table->doubt.empty() ? "no cause known" : table->doubt);
  }
}

/// Memory, of the tables that have it. NCCL's buffers are not counted.
void print_memory(const std::vector<ValidatedTable>& tables) {
  for (const ValidatedTable& table : tables) {
    std::size_t all = 0, small = 0;
    for (const Validated& point : table.rows)
      if (point.published_memory_bytes > 0) ++all, small += point.memory_error() < 0;
    if (all == 0) continue;
    const Deviation off = memory_deviation(table);
    fmt::print("Memory of {}: {} runs, {} predicted too small; median {:.1f} %, mean {:.1f}, worst {:.1f}.\n",
               table.name, all, small, 100 * off.median, 100 * off.mean, 100 * off.worst);
  }
}

Row row_of(const ValidatedTable& table, const Validated& point) {
  Row row;
  row.set("kind", "validated").set("table", table.name).set("point", point.name).set("unit", table.unit);
  row.set("published", point.published).set("simple", point.simple).set("by_file", point.file);
  row.set("by_libraries", point.library).set("relative_error", point.error());
  row.set("file_relative_error", point.file / point.published - 1);
  row.set("simple_relative_error", point.simple / point.published - 1);
  if (point.other > 0) row.set("by_libraries_otherwise", point.other);
  row.set("memory_bytes", point.memory_bytes).set("chosen", point.chosen);
  if (point.published_memory_bytes > 0)
    row.set("published_memory_bytes", point.published_memory_bytes).set("memory_relative_error", point.memory_error());
  return row;
}

}  // namespace

void validate_all(const std::string& root, const PlanOptions& o) {
  if (o.without == "list") {
    for (const Term& term : terms()) fmt::print("{:<15} without: {}\n", term.name, term.words);
    return;
  }
  const Without lacking = without(o.without);
  const std::vector<ValidatedTable> tables = validate(root, o.table, lacking);
  for (const Term* term : lacking.left_out) fmt::print("Without {}: {}.\n", term->name, term->words);
  std::vector<Row> rows;
  for (const ValidatedTable& table : tables) {
    print_table(table);
    for (const Validated& point : table.rows) rows.push_back(row_of(table, point));
  }
  print_summary(tables);
  print_signs(tables);
  print_memory(tables);
  Context context = Context::here();
  context.more.set("command", "validate").set("command_line", o.command_line);
  if (!o.without.empty()) context.more.set("without", o.without);
  if (!o.json.empty()) write_results(o.json, context, rows);
  if (!o.csv.empty()) write_csv(o.csv, rows);
}

}  // namespace lockstep::plan
