// Writes a trace as lines of characters, for a terminal: one line per queue, where each column has a letter for what
// the queue mostly does in it; for a pipeline, one line per stage, with the name of each step.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ostream>

#include "common/analysis/labels.hpp"
#include "common/analysis/layout.hpp"
#include "common/analysis/shares.hpp"
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
      if (event->kind() != kind || event->end <= until) continue;
      const double begin = column(std::max(event->begin, until)), end = column(event->end);
      until = event->end;
      for (int c = static_cast<int>(begin); c < width_ && c < end; ++c)
        shares[static_cast<std::size_t>(c)] += std::min(end, c + 1.0) - std::max(begin, static_cast<double>(c));
    }
    return shares;
  }

  /// Paints every column whose middle lies within: `word` first, as much of it as fits, then `fill`.
  void paint(Cells& line, double begin, double end, const std::string& word, const std::string& fill) const {
    const auto first_middle = [&](double seconds) {
      return std::clamp(static_cast<int>(std::ceil(column(seconds) - 0.5 - 1e-9)), 0, width_);
    };
    const auto first = static_cast<std::size_t>(first_middle(begin)),
               last = static_cast<std::size_t>(first_middle(end));
    const std::size_t letters = word.size() <= last - first ? word.size() : std::min<std::size_t>(1, word.size());
    for (std::size_t c = first; c < last; ++c) line[c] = c - first < letters ? word.substr(c - first, 1) : fill;
  }

  void write(const std::string& label, const Cells& line) const {
    out_ << fmt::format("{:<{}} |{}|", label, label_width_, std::accumulate(line.begin(), line.end(), std::string()));
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

void write_queues(const Trace& trace, std::ostream& out, int columns) {
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

/// Drawing of a pipeline's steps: their names, padded with `fill`.
struct StepLook {
  char letter;
  const char *fill, *meaning;

  bool operator()(const TraceEvent* event) const { return event->compute() && event->name[0] == letter; }
};
constexpr StepLook kSteps[] = {
    {'F', "─", "forward"}, {'B', "═", "backward"}, {'I', "≈", "input's half"}, {'W', "+", "weights' half"}};

/// A message of a pipeline: of activations down, of gradients up.
struct Sent {
  int stage;  // that sends it
  bool down;
  double begin, end;
};
/// Messages that take time, in the order of their begins.
std::vector<Sent> messages_of(const Trace& trace) {
  std::vector<Sent> messages;
  for (const analysis::Flight& flight : analysis::flights_of(trace)) {
    if (flight.from < 0 || nanoseconds(flight.end) <= nanoseconds(flight.begin)) continue;
    const TraceEvent& send = trace.events[static_cast<std::size_t>(flight.from)];
    const std::string& queue = trace.queues[static_cast<std::size_t>(send.queue)];
    messages.push_back({send.rank, queue.starts_with("down"), flight.begin, flight.end});
  }
  std::stable_sort(messages.begin(), messages.end(), [](const Sent& a, const Sent& b) { return a.begin < b.begin; });
  return messages;
}

/// Main's steps, and its waits between them.
Cells steps_of(const TextChart& chart, const std::vector<const TraceEvent*>& work) {
  Cells line = chart.empty("·");
  const auto is_step = [](const TraceEvent* event) { return event->compute() != nullptr; };
  const auto first = std::find_if(work.begin(), work.end(), is_step);
  const auto last = std::find_if(work.rbegin(), work.rend(), is_step).base();
  for (auto wait = first; wait < last; ++wait)
    if (!is_step(*wait)) chart.paint(line, (*wait)->begin, (*wait)->end, "", "w");
  for (const StepLook& look : kSteps)
    for (const TraceEvent* event : work)
      if (look(event)) chart.paint(line, event->begin, event->end, event->name, look.fill);
  return line;
}

/// Below the line of each stage the messages in flight from it, if messages take time.
void write_stages(const Trace& trace, std::ostream& out, int columns) {
  const TextChart chart(time_span(trace), out, columns, std::string("stage 00").size());
  const std::vector<Sent> messages = messages_of(trace);
  std::string meaning;
  for (const TraceRow& row : trace_rows(trace)) {
    if (row.queue != 0) continue;
    chart.write(fmt::format("stage {:>2}", row.rank), steps_of(chart, row.work));
    chart.write_share(covered(row.work, Kind::compute));
    out << "\n";
    Cells line = chart.empty(" ");
    for (const Sent& sent : messages)
      if (sent.stage == row.rank) chart.paint(line, sent.begin, sent.end, "", sent.down ? "v" : "^");
    if (!messages.empty()) chart.write("", line), out << "\n";
  }
  for (const StepLook& look : kSteps)
    if (std::any_of(trace.events.begin(), trace.events.end(), [&](const TraceEvent& event) { return look(&event); }))
      meaning += fmt::format("{}0{} {}  ", look.letter, look.fill, look.meaning);
  for (const bool down : {true, false})
    if (std::any_of(messages.begin(), messages.end(), [&](const Sent& sent) { return sent.down == down; }))
      meaning += down ? "v activations on  " : "^ gradients back  ";
  chart.write_end(meaning);
}

}  // namespace

void write_gantt_text(const Trace& trace, std::ostream& out, int columns) {
  if (time_span(trace).length() <= 0) {
    out << (trace.stuck.empty()
                ? "(nothing happened)\n"
                : "(no message was completed: the DEADLOCK says who waits for whom; ./lab view draws it)\n");
    return;
  }
  bool steps = false, other = false;  // what is computed
  for (const TraceEvent& event : trace.events)
    if (event.compute()) (analysis::is_pipeline_step(event) ? steps : other) = true;
  (steps && !other ? write_stages : write_queues)(trace, out, columns);
}

}  // namespace lockstep
