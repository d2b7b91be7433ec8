#include "common/analysis/message_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "common/analysis/labels.hpp"
#include "common/analysis/layout.hpp"
#include "common/analysis/shares.hpp"
#include "common/support/text/units.hpp"

namespace lockstep::analysis {
namespace {

constexpr std::size_t kMostMessages = 256;
constexpr std::size_t kColumns = 124;  // bytes; an arrow has three

struct Line {
  std::string place;
  std::size_t step = 0;
  long long begin = 0, end = 0;  // nanoseconds
  std::uint64_t bytes = 0;
  std::string text;  // "0 → 1: chunk 2"
};

/// The number of each transfer's batch, from 1, among the batches of its place.
std::vector<std::size_t> steps_of(const Trace& trace, const Labels& labels) {
  std::map<std::tuple<std::string, int, int>, std::vector<std::size_t>> batches;  // by place, rank, queue
  for (std::size_t i = 0; i < trace.events.size(); ++i)
    if (const TraceEvent& e = trace.events[i]; e.transfer()) batches[{labels.places[i], e.rank, e.queue}].push_back(i);
  std::vector<std::size_t> steps(trace.events.size());
  for (auto& [key, all] : batches) {
    std::stable_sort(all.begin(), all.end(), [&](std::size_t a, std::size_t b) {
      return std::tie(trace.events[a].first, trace.events[a].begin) <
             std::tie(trace.events[b].first, trace.events[b].begin);
    });
    for (std::size_t k = 0; k < all.size(); ++k) steps[all[k]] = k + 1;
  }
  return steps;
}

/// One line per message, in the order of the table.
std::vector<Line> lines_of(const Trace& trace) {
  const std::vector<Flight> flights = flights_of(trace);
  const Labels labels = labels_of(trace, flights);
  const std::vector<std::size_t> steps = steps_of(trace, labels);
  std::map<std::string, long long> begins;  // by place
  std::vector<Line> lines;
  std::vector<int> from;
  for (std::size_t i = 0; i < flights.size(); ++i) {
    const Flight& f = flights[i];
    if (f.from < 0) continue;
    const auto event = static_cast<std::size_t>(f.from);
    const TraceMessage& m = *f.sent;
    lines.push_back({labels.places[event], steps[event], nanoseconds(f.begin), nanoseconds(f.end), m.bytes,
                     fmt::format("{} → {}: {}", trace.events[event].rank, m.peer, labels.messages[i])});
    const long long begin = lines.back().begin;
    auto [known, fresh] = begins.try_emplace(lines.back().place, begin);
    known->second = std::min(known->second, begin);
  }
  std::stable_sort(lines.begin(), lines.end(), [&](const Line& a, const Line& b) {
    return std::tie(begins[a.place], a.place, a.step, a.begin, a.end, a.bytes) <
           std::tie(begins[b.place], b.place, b.step, b.begin, b.end, b.bytes);
  });
  return lines;
}

/// The text of a message without its place: "bucket 2 of 5: " is in the heading.
std::string in_place(const Line& line) {
  const std::size_t part = line.place.find(": ");
  if (part == std::string::npos) return line.text;
  const std::string around = line.place.substr(0, part + 2);
  const std::size_t at = line.text.find(around);
  return at == std::string::npos ? line.text : line.text.substr(0, at) + line.text.substr(at + around.size());
}

std::string on_its_way(const Line& line) {
  return fmt::format("{} to {}", format_seconds(1e-9 * static_cast<double>(line.begin)),
                     format_seconds(1e-9 * static_cast<double>(line.end)));
}

/// Formats the lines. Messages that differ only in ranks and parts share a line, as many as fit.
std::vector<std::string> written(const std::vector<Line>& lines) {
  std::vector<std::string> out;
  const Line* before = nullptr;
  for (const Line& line : lines) {
    if (!before || line.place != before->place) {
      if (!line.place.empty()) out.push_back(fmt::format("  {}", line.place));
      before = nullptr;
    }
    const std::string text = in_place(line);
    const bool alike = before && std::tie(before->step, before->begin, before->end, before->bytes) ==
                                     std::tie(line.step, line.begin, line.end, line.bytes);
    if (alike && out.back().size() + text.size() + 3 < kColumns)
      out.back() += ",  " + text;
    else
      out.push_back(fmt::format(
          "  {:>4}  {:<22} {:>9}   {}", before && before->step == line.step ? "" : std::to_string(line.step),
          alike ? "" : on_its_way(line), alike ? "" : format_bytes(static_cast<double>(line.bytes)), text));
    before = &line;
  }
  return out;
}

}  // namespace

std::string message_table(const Trace& trace, std::size_t most_lines) {
  const std::vector<Line> lines = lines_of(trace);
  if (lines.empty()) return "";
  if (lines.size() > kMostMessages)
    return fmt::format("{} messages are too many for a table: ./lab view in place of ./lab shows them\n", lines.size());
  std::vector<std::string> rows = written(lines);
  std::string table =
      fmt::format("{} message{}, by steps (a rank's batches)\n  {:>4}  {:<22} {:>9}   {}\n", lines.size(),
                  lines.size() == 1 ? "" : "s", "step", "in flight", "bytes", "from → to: what");
  const std::size_t shown = std::min(rows.size(), most_lines);
  for (std::size_t i = 0; i < shown; ++i) table += rows[i] + "\n";
  if (shown < rows.size())
    table += fmt::format("  … and {} line{} more, which ./lab view shows\n", rows.size() - shown,
                         rows.size() - shown == 1 ? "" : "s");
  return table;
}

namespace {

bool sets_up(const TraceEvent& e) {
  return e.region() && e.queue == 0 && (e.region()->phase ? e.name == "set-up" : e.name == "broadcast");
}

/// Time at which each rank has ended the set-up at its beginning. Nothing if all transfers are part of it.
std::optional<std::map<int, double>> ends_of_set_up(const Trace& trace) {
  std::map<int, std::vector<const TraceEvent*>> transfers, regions;  // by rank
  for (const TraceEvent& e : trace.events) {
    if (e.transfer()) transfers[e.rank].push_back(&e);
    if (sets_up(e)) regions[e.rank].push_back(&e);
  }
  std::map<int, double> ends;
  bool others = false;
  for (auto& [rank, all] : transfers) {
    std::stable_sort(all.begin(), all.end(), [](auto* a, auto* b) { return a->begin < b->begin; });
    for (const TraceEvent* e : all) {
      const auto around = std::find_if(regions[rank].begin(), regions[rank].end(), [&](const TraceEvent* region) {
        return e->queue == 0 && e->first >= region->first && e->first <= region->last;
      });
      others = others || around == regions[rank].end();
      if (around == regions[rank].end()) break;
      ends[rank] = std::max(ends[rank], (*around)->end);
    }
  }
  if (ends.empty() || !others) return std::nullopt;
  return ends;
}

/// True for an event of that rank's set-up.
bool belongs_to_set_up(const TraceEvent& e, const std::map<int, double>& ends) {
  const auto end = ends.find(e.rank);
  return end != ends.end() && (e.end <= end->second || (e.region() && e.begin < end->second));
}

}  // namespace

double set_up_seconds(const Trace& trace) {
  const auto ends = ends_of_set_up(trace);
  if (!ends) return 0;
  double from = std::numeric_limits<double>::infinity();
  for (const TraceEvent& e : trace.events)
    if (ends->contains(e.rank) && !belongs_to_set_up(e, *ends)) from = std::min(from, e.begin);
  return std::isfinite(from) ? from : 0;
}

Trace without_set_up(const Trace& trace) {
  const auto ends = ends_of_set_up(trace);
  if (!ends) return trace;
  const double from = set_up_seconds(trace);
  Trace rest = trace;
  std::erase_if(rest.events, [&](const TraceEvent& e) { return belongs_to_set_up(e, *ends) || e.end <= from; });
  for (TraceEvent& e : rest.events) e.begin = std::max(0.0, e.begin - from), e.end -= from;
  return rest;
}

}  // namespace lockstep::analysis
