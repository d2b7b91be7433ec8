#include "tools/pipeline/schedule_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

#include "common/runtime/trace/layout.hpp"
#include "common/runtime/trace/shades.hpp"
#include "common/support/text/units.hpp"

namespace lockstep::bench {
namespace {

using Kind = TraceEvent::Kind;
enum Queue : int { kMain, kDown, kUp };

const char* filling(char work) {
  switch (work) {
    case 'F': return "─";
    case 'B': return "═";
    case 'I': return "≈";
    default: return "+";
  }
}

/// One character a column; a character may have several bytes.
using Line = std::vector<std::string>;

std::string joined(const Line& line) {
  std::string text;
  for (const std::string& cell : line) text += cell;
  return text;
}

class Painter {
 public:
  Painter(TimeSpan span, int width) : span_(span), width_(width) {}
  Line empty(const char* with) const { return Line(static_cast<std::size_t>(width_), with); }

  /// Every column whose middle the event covers; `word` first, as far as it fits.
  void paint(Line& line, const TraceEvent& event, const std::string& word, const char* fill) const {
    const int first = column(event.begin), last = column(event.end);
    for (int c = first; c < last; ++c) {
      const auto at = static_cast<std::size_t>(c - first);
      const bool fits = word.size() <= static_cast<std::size_t>(last - first);
      line[static_cast<std::size_t>(c)] = at < (fits ? word.size() : 1) && !word.empty() ? word.substr(at, 1) : fill;
    }
  }

 private:
  /// The first column whose middle is not before `seconds`.
  int column(double seconds) const {
    return std::clamp(static_cast<int>(std::ceil((seconds - span_.begin) / span_.length() * width_ - 0.5 - 1e-9)), 0,
                      width_);
  }
  TimeSpan span_;
  int width_;
};

/// One direction of a link: what its two ends saw of each message, in order.
struct Link {
  std::vector<double> sent, received;
};

/// By link and direction (2·link, and 2·link + 1 for gradients). A stage sends on a link and receives on its
/// neighbour's, which has a queue of its own (24.1).
std::vector<Link> links_of(const Trace& trace, int stages) {
  std::vector<Link> links(2 * static_cast<std::size_t>(stages));
  for (const TraceEvent& event : trace.events) {
    if (event.kind != Kind::transfer) continue;
    const std::string& queue = trace.queues.at(static_cast<std::size_t>(event.queue));
    const bool down = queue.starts_with("down");
    const int after = event.rank, before = (event.rank + stages - 1) % stages;
    const auto is = [&](int link) {
      const std::string name = link + 1 == stages ? "around" : link % 2 == 0 ? "even" : "odd";
      return queue == (down ? "down " : "up ") + name;
    };
    const int link = is(after) ? after : before;
    Link& seen = links[2 * static_cast<std::size_t>(link) + (down ? 0 : 1)];
    if (down == (link == after))
      seen.sent.push_back(event.begin);
    else
      seen.received.push_back(event.end);
  }
  return links;
}

/// Each message from the moment it is sent to the moment it is there.
void add_messages(Trace& named, const Trace& trace, int stages) {
  std::vector<Link> links = links_of(trace, stages);
  for (std::size_t i = 0; i < links.size(); ++i) {
    Link& link = links[i];
    std::sort(link.sent.begin(), link.sent.end());
    std::sort(link.received.begin(), link.received.end());
    const bool down = i % 2 == 0;
    const int first = static_cast<int>(i / 2), sender = down ? first : (first + 1) % stages;
    for (std::size_t k = 0; k < std::min(link.sent.size(), link.received.size()); ++k)
      if (link.received[k] > link.sent[k])
        named.events.push_back({Kind::transfer, sender, down ? kDown : kUp, down ? "activations on" : "gradients back",
                                "", link.sent[k], link.received[k]});
  }
}

}  // namespace

double wire_seconds(const Trace& named, int stage) {
  std::vector<const TraceEvent*> sends;
  for (const TraceEvent& event : named.events)
    if (event.kind == Kind::transfer && event.rank == stage) sends.push_back(&event);
  return covered(sends, Kind::transfer);
}

Trace named_trace(const week24::TimedRun& run, const PipelineShape& shape) {
  Trace named{.queues = {"main", "down", "up"}, .events = {}};
  const Trace& trace = run.outcome.trace;
  for (std::size_t s = 0; s < run.steps.size(); ++s)
    for (const TimedStep& timed : run.steps[s])
      if (timed.end > timed.begin)
        named.events.push_back({Kind::compute, static_cast<int>(s), kMain, to_string(timed.step, shape.chunks), "",
                                timed.begin, timed.end});
  for (const TraceEvent& event : trace.events) {
    const auto rank = static_cast<std::size_t>(event.rank);
    const bool within = event.kind == Kind::wait && event.queue == 0 && event.begin >= run.steps[rank].front().begin &&
                        event.begin < run.steps[rank].back().end;
    if (within && event.end > event.begin) named.events.push_back(event);
  }
  add_messages(named, trace, shape.stages);
  std::stable_sort(named.events.begin(), named.events.end(),
                   [](const TraceEvent& a, const TraceEvent& b) { return a.begin < b.begin; });
  return named;
}

std::string chart_text(const Trace& named, int columns, bool transfers) {
  const TimeSpan span = time_span(named);
  int stages = 0;
  for (const TraceEvent& event : named.events) stages = std::max(stages, event.rank + 1);
  const int width = std::max(20, columns - 18);
  const Painter painter(span, width);
  std::array<std::vector<Line>, 2> lines;  // steps, sends
  for (int s = 0; s < stages; ++s) lines[0].push_back(painter.empty("·")), lines[1].push_back(painter.empty(" "));
  std::vector<double> busy(static_cast<std::size_t>(stages), 0);
  // Waiting first: a step that begins in the same column hides it.
  for (const TraceEvent& event : named.events)
    if (event.kind == Kind::wait) painter.paint(lines[0][static_cast<std::size_t>(event.rank)], event, "", "w");
  for (const TraceEvent& event : named.events) {
    const auto rank = static_cast<std::size_t>(event.rank);
    if (event.kind == Kind::compute) {
      painter.paint(lines[0][rank], event, event.name, filling(event.name[0]));
      busy[rank] += event.end - event.begin;
    } else if (event.kind == Kind::transfer) {
      painter.paint(lines[1][rank], event, "", event.queue == kDown ? "v" : "^");
    }
  }
  std::string text;
  for (std::size_t s = 0; s < busy.size(); ++s) {
    text += fmt::format("stage {:>2} |{}| {:3.0f} %\n", s, joined(lines[0][s]), 100 * busy[s] / span.length());
    if (transfers) text += fmt::format("         |{}|\n", joined(lines[1][s]));
  }
  text += fmt::format("{:9} {:<{}} {}\n", "", format_seconds(span.begin), width - 4, format_seconds(span.end));
  std::string kinds;
  for (const auto& [letter, name] : {std::pair{'F', "forward"},
                                     {'B', "backward"},
                                     {'I', "its half for the input"},
                                     {'W', "its half for the weights"}})
    if (std::any_of(named.events.begin(), named.events.end(), [&, wanted = letter](const TraceEvent& e) {
          return e.kind == Kind::compute && e.name[0] == wanted;
        }))
      kinds += fmt::format("{}0{} {}  ", letter, filling(letter), name);
  text += fmt::format("{}w waiting for a neighbour  · idle at the ends{};  % = share computing\n", kinds,
                      transfers ? "  v ^ on its way to the next stage, and back" : "");
  return text;
}

std::string chart_svg(const Trace& named, const std::string& title) {
  std::ostringstream out;
  std::vector<Shade> shades = {{"F", "forward F"}, {"B", "backward B"}};
  const auto has = [&](char letter) {
    return std::any_of(named.events.begin(), named.events.end(),
                       [&](const TraceEvent& e) { return e.kind == Kind::compute && e.name[0] == letter; });
  };
  if (has('I')) shades.push_back({"I", "input's half I"});
  if (has('W')) shades.push_back({"W", "weights' half W"});
  if (!has('B')) shades.erase(shades.begin() + 1);
  write_gantt_svg(named, out, title, shades);
  return out.str();
}

}  // namespace lockstep::bench
