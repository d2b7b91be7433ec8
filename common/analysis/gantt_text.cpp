// Writes a trace as lines of characters, for a terminal: one line per queue, where each column has a letter for what
// the queue mostly does in it; for a pipeline, one line per stage, with the name of each step.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "common/analysis/layout.hpp"
#include "common/analysis/write_trace.hpp"
#include "common/support/text/units.hpp"

namespace lockstep {
namespace {

using Kind = TraceEvent::Kind;
using Cells = std::vector<std::string>;  // one per column; each is one character, maybe of several bytes

/// Number of characters in a UTF-8 text.
std::size_t length(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](unsigned char byte) { return (byte & 0xC0) != 0x80; }));
}

/// Frame of all charts: |label |line| share|, followed by the time axis and the legend.
class TextChart {
 public:
  TextChart(TimeSpan span, std::ostream& out, int columns, std::size_t label_width)
      : span_(span),
        out_(out),
        label_width_(label_width),
        width_(std::max(10, columns - static_cast<int>(label_width) - 10)) {}  // " |…| 100 %"

  int width() const { return width_; }
  Cells empty(const char* with) const { return Cells(static_cast<std::size_t>(width_), with); }

  /// Fraction of each column covered by events of `kind`; overlaps count once.
  std::vector<double> coverage(const std::vector<const TraceEvent*>& events, Kind kind) const {
    std::vector<double> shares(static_cast<std::size_t>(width_), 0.0);
    double until = span_.begin;
    for (const TraceEvent* event : events) {
      if (event->kind != kind || event->end <= until) continue;
      const double begin = column(std::max(event->begin, until)), end = column(event->end);
      until = event->end;
      for (int c = static_cast<int>(begin); c < width_ && c < end; ++c)
        shares[static_cast<std::size_t>(c)] += std::min(end, c + 1.0) - std::max(begin, static_cast<double>(c));
    }
    return shares;
  }

  /// Paints every column whose middle the event covers: `word` first, as much of it as fits, then `fill`.
  void paint(Cells& line, const TraceEvent& event, const std::string& word, const std::string& fill) const {
    const auto first_middle = [&](double seconds) {
      return std::clamp(static_cast<int>(std::ceil(column(seconds) - 0.5 - 1e-9)), 0, width_);
    };
    const auto first = static_cast<std::size_t>(first_middle(event.begin)),
               last = static_cast<std::size_t>(first_middle(event.end));
    const std::size_t letters = word.size() <= last - first ? word.size() : std::min<std::size_t>(1, word.size());
    for (std::size_t c = first; c < last; ++c) line[c] = c - first < letters ? word.substr(c - first, 1) : fill;
  }

  void write(const std::string& label, const Cells& line) const {
    out_ << fmt::format("{:<{}} |{}|", label, label_width_, fmt::join(line, ""));
  }
  void write_share(double seconds) const { out_ << fmt::format(" {:3.0f}%", 100 * seconds / span_.length()); }
  void write_end(const std::string& meaning) const {
    const std::string begin = format_seconds(span_.begin), end = format_seconds(span_.end);
    const std::size_t width = static_cast<std::size_t>(width_),
                      padding = std::max(length(begin) + 2, width - std::min(length(end), width));
    out_ << fmt::format("{:<{}}  {:<{}}{}\n", "", label_width_, begin, padding, end) << meaning
         << "w waiting  · idle;  % = share computing\n";
  }

 private:
  double column(double seconds) const { return (seconds - span_.begin) / span_.length() * width_; }

  TimeSpan span_;
  std::ostream& out_;
  std::size_t label_width_;
  int width_;
};

/// Letter for what the queue does longest: C if it computes, or B if bytes also move for most of the column; otherwise
/// t if bytes move for most of it; otherwise w if it waits, · if it is idle.
const char* letter(double compute, double wait, double transfer) {
  double idle = 1 - compute - wait;
  constexpr double kRounding = 1e-9;
  if (compute >= std::max(wait, idle) - kRounding) return transfer >= 0.5 - kRounding ? "B" : "C";
  if (transfer >= 0.5 - kRounding) return "t";
  return wait >= idle ? "w" : "·";
}

bool is_empty(const Trace& trace, std::ostream& out) {
  if (time_span(trace).length() > 0) return false;
  out << "(nothing happened)\n";
  return true;
}

}  // namespace

void write_gantt_text(const Trace& trace, std::ostream& out, int columns) {
  if (is_empty(trace, out)) return;
  const std::vector<TraceRow> rows = trace_rows(trace);
  std::size_t label_width = 0;
  const auto label = [](const TraceRow& row) { return fmt::format("rank {} {}", row.rank, row.queue_name); };
  for (const TraceRow& row : rows) label_width = std::max(label_width, label(row).size());
  const TextChart chart(time_span(trace), out, columns, label_width);
  for (const TraceRow& row : rows) {
    const std::vector<double> compute = chart.coverage(row.work, Kind::compute),
                              wait = chart.coverage(row.work, Kind::wait),
                              transfer = chart.coverage(row.transfers, Kind::transfer);
    Cells line;
    for (std::size_t i = 0; i < compute.size(); ++i) line.emplace_back(letter(compute[i], wait[i], transfer[i]));
    chart.write(label(row), line);
    chart.write_share(covered(row.work, Kind::compute));
    out << "\n";
  }
  chart.write_end("C computing  B computing while bytes move  t bytes moving  ");
}

void write_gantt_text(const Trace& trace, std::ostream& out, int columns, const std::vector<Shade>& shades) {
  if (is_empty(trace, out)) return;
  const TextChart chart(time_span(trace), out, columns, std::string("stage 00").size());
  const auto fill = [&](const TraceEvent& event) -> std::string {
    for (const Shade& shade : shades)
      if (event.name.starts_with(shade.prefix)) return shade.fill;
    return "+";
  };
  int stages = 0;
  bool moves = false;
  for (const TraceEvent& event : trace.events) {
    stages = std::max(stages, event.rank + 1);
    moves = moves || event.kind == Kind::transfer;
  }
  for (int stage = 0; stage < stages; ++stage) {
    Cells steps = chart.empty("·"), messages = chart.empty(" ");
    double busy = 0;
    for (const Kind kind : {Kind::wait, Kind::compute, Kind::transfer})  // a step hides waiting in its first column
      for (const TraceEvent& event : trace.events) {
        if (event.rank != stage || event.kind != kind) continue;
        if (kind == Kind::compute) busy += event.end - event.begin;
        chart.paint(kind == Kind::transfer ? messages : steps, event, kind == Kind::compute ? event.name : "",
                    kind == Kind::wait ? "w" : fill(event));
      }
    chart.write(fmt::format("stage {:>2}", stage), steps);
    chart.write_share(busy);
    out << "\n";
    if (moves) chart.write("", messages), out << "\n";
  }
  std::string meaning;
  for (const Shade& shade : shades)
    meaning += shade.arithmetic ? fmt::format("{}0{} {}  ", shade.prefix, shade.fill, shade.name)
                                : fmt::format("{} {}  ", shade.fill, shade.name);
  chart.write_end(meaning);
}

}  // namespace lockstep
