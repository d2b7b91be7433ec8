// A trace as lines of letters, for a terminal: one row a queue, one letter for what a queue mostly does in a column.
#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "common/runtime/trace/layout.hpp"
#include "common/support/text/units.hpp"

namespace lockstep {
namespace {

using Kind = TraceEvent::Kind;

/// Share of each of `columns` equal parts of `span` that events of `kind` cover; overlaps count once.
std::vector<double> coverage(const std::vector<const TraceEvent*>& events, Kind kind, TimeSpan span, int columns) {
  std::vector<double> shares(static_cast<std::size_t>(columns), 0.0);
  double width = span.length() / columns, until = span.begin;
  for (const TraceEvent* event : events) {
    if (event->kind != kind || event->end <= until) continue;
    double begin = (std::max(event->begin, until) - span.begin) / width, end = (event->end - span.begin) / width;
    until = event->end;
    for (int column = static_cast<int>(begin); column < columns && column < end; ++column)
      shares[static_cast<std::size_t>(column)] +=
          std::min(end, column + 1.0) - std::max(begin, static_cast<double>(column));
  }
  return shares;
}

/// What the queue does the longest: C computing, or B where bytes move for most of the column as well; else t where
/// bytes move for most of it; else w waiting or · nothing.
const char* letter(double compute, double wait, double transfer) {
  double idle = 1 - compute - wait;
  constexpr double kRounding = 1e-9;
  if (compute >= std::max(wait, idle) - kRounding) return transfer >= 0.5 - kRounding ? "B" : "C";
  if (transfer >= 0.5 - kRounding) return "t";
  return wait >= idle ? "w" : "·";
}

/// Letters of a UTF-8 text.
std::size_t length(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](unsigned char byte) { return (byte & 0xC0) != 0x80; }));
}

}  // namespace

void write_gantt_text(const Trace& trace, std::ostream& out, int columns) {
  std::vector<TraceRow> rows = trace_rows(trace);
  TimeSpan span = time_span(trace);
  if (rows.empty() || span.length() <= 0) {
    out << "(nothing happened)\n";
    return;
  }
  std::size_t label_width = 0;
  auto label = [](const TraceRow& row) { return fmt::format("rank {} {}", row.rank, row.queue_name); };
  for (const TraceRow& row : rows) label_width = std::max(label_width, label(row).size());
  int width = std::max(10, columns - static_cast<int>(label_width) - 10);  // " |…| 100 %"

  for (const TraceRow& row : rows) {
    std::vector<double> compute = coverage(row.work, Kind::compute, span, width);
    std::vector<double> wait = coverage(row.work, Kind::wait, span, width);
    std::vector<double> transfer = coverage(row.transfers, Kind::transfer, span, width);
    std::string line;
    for (std::size_t i = 0; i < compute.size(); ++i) line += letter(compute[i], wait[i], transfer[i]);
    out << fmt::format("{:<{}} |{}| {:3.0f} %\n", label(row), label_width, line,
                       100 * covered(row.work, Kind::compute) / span.length());
  }
  std::string begin = format_seconds(span.begin), end = format_seconds(span.end);
  std::size_t padding =
      std::max(length(begin) + 2, static_cast<std::size_t>(width) - std::min<std::size_t>(length(end), width));
  out << fmt::format("{:<{}}  {:<{}}{}\n", "", label_width, begin, padding, end)
      << "C computing  B computing while bytes move  t bytes moving  w waiting  · idle;  % = share computing\n";
}

}  // namespace lockstep
