// Chrome's trace-event format, as Perfetto reads it: a JSON list of complete events ("X") and metadata ("M"). Data that
// viewers do not need but read_trace.cpp does is in "args", in metadata called "closure", and in "otherData".
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
#include <fmt/format.h>

#include <ostream>
#include <sstream>

#include "common/analysis/layout.hpp"
#include "common/analysis/write_trace.hpp"
#include "common/support/host/host.hpp"
#include "common/support/json/escape.hpp"
#include "common/support/json/whose_code.hpp"
#include "common/support/text/files.hpp"

namespace lockstep {
namespace {

constexpr const char* kCategories[] = {"compute", "wait", "transfer", "region"};  // by TraceEvent::Kind

/// Writes one event per line, with the commas that JSON needs between them.
class EventList {
 public:
  EventList(const Trace& trace, std::ostream& out, const std::string& title) : out_(out) {
    const std::string machine = trace.machine.empty() ? read_host().processor : trace.machine;
    out_ << R"({"displayTimeUnit": "ns", "otherData": {"program": "lockstep", "code": )" << quoted(whose_code())
         << R"(, "title": )" << lockstep::quoted(title) << R"(, "backend": )" << lockstep::quoted(trace.backend)
         << R"(, "machine": )" << lockstep::quoted(machine);
    if (trace.modelled) out_ << fmt::format(R"(, "modelled": true, "eager_bytes": {})", trace.eager_bytes);
    if (!trace.verdict.empty())
      out_ << R"(, "verdict": )" << lockstep::quoted(trace.verdict) << R"(, "message": )"
           << lockstep::quoted(trace.message)
           << (trace.stopped ? fmt::format(R"(, "stopped": true, "failed_rank": {})", trace.failed_rank) : "");
    if (!trace.totals.empty()) totals(trace.totals);
    out_ << R"(}, "traceEvents": [)";
  }
  ~EventList() { out_ << "\n]}\n"; }

  void name(const char* what, int process, int thread, const std::string& name) {
    add(R"({{"ph": "M", "name": "{}", "pid": {}, "tid": {}, "args": {{"name": {}}}}})", what, process, thread,
        lockstep::quoted(name));
  }
  void order(int process, int thread) {
    add(R"({{"ph": "M", "name": "thread_sort_index", "pid": {}, "tid": {}, "args": {{"sort_index": {}}}}})", process,
        thread, thread);
  }
  void event(const TraceEvent& event, int thread) {
    // Microseconds with three decimals. Begin and end are rounded to nanoseconds first, so that nesting is preserved.
    long long begin = nanoseconds(event.begin), length = nanoseconds(event.end) - begin;
    add(R"({{"ph": "X", "name": {}, "cat": "{}", "pid": {}, "tid": {}, "ts": {}.{:03}, "dur": {}.{:03}, )"
        R"("args": {{"where": {}{}}}}})",
        lockstep::quoted(event.name), kCategories[event.what.index()], event.rank, thread, begin / 1000, begin % 1000,
        length / 1000, length % 1000, lockstep::quoted(event.where), program(event));
  }
  void closure(const TraceClosure& c, const std::string& queue) {
    add(R"({{"ph": "M", "name": "closure", "pid": {}, "tid": 0, "args": {{"queue": {}, "issued": {}, "first": {}, )"
        R"("last": {}, "waited": {}, "seconds": [{:.9f}, {:.9f}, {:.9f}]}}}})",
        c.rank, lockstep::quoted(queue), c.issued, c.first, c.last, c.waited, c.given, c.begin, c.end);
  }

  void block(const TraceBlock& b) {
    add(R"({{"ph": "M", "name": "block", "pid": {}, "tid": 0, "args": {{"id": {}, "category": {}, "bytes": {}, )"
        R"("uploaded": {}, "seconds": [{:.9f}, {:.9f}]}}}})",
        b.rank, b.id, lockstep::quoted(b.category), b.bytes, b.uploaded, b.begin, b.end);
  }
  void race(const TraceRace& r, const Trace& trace) {
    const auto access = [&](const TraceAccess& a) {
      return fmt::format(R"([{}, {}, {:.9f}, {}, {}, {}])",
                         lockstep::quoted(trace.queues[static_cast<std::size_t>(a.queue)]), a.position, a.time,
                         a.writes, lockstep::quoted(a.what), lockstep::quoted(a.where));
    };
    add(R"({{"ph": "M", "name": "race", "pid": {}, "tid": 0, "args": {{"block": {}, "offset": {}, "bytes": {}, )"
        R"("category": {}, "allocated": {}, "first": {}, "second": {}}}}})",
        r.rank, r.block, r.offset, r.bytes, lockstep::quoted(r.category), lockstep::quoted(r.allocated),
        access(r.first), access(r.second));
  }
  void stuck(const TraceStuck& s, const Trace& trace) {
    const auto name = [&](int queue) {
      return lockstep::quoted(queue < 0 ? "" : trace.queues[static_cast<std::size_t>(queue)]);
    };
    add(R"({{"ph": "M", "name": "stuck", "pid": {}, "tid": 0, "args": {{"queue": {}, "needs_rank": {}, )"
        R"("needs_queue": {}, "link": {}, "where": {}, "reason": {}}}}})",
        s.rank, name(s.queue), s.needs_rank, name(s.needs_queue), s.link, lockstep::quoted(s.where),
        lockstep::quoted(s.reason));
  }

 private:
  void totals(const std::vector<TraceTotals>& all) {
    out_ << R"(, "ledgers": [)";
    for (const TraceTotals& t : all)
      out_ << fmt::format("{}[{}, {:.9f}, {:.9f}, {:.9f}, {:.9f}, {}, {}]", &t == all.data() ? "" : ", ", t.rank,
                          t.seconds, t.busy, t.waiting, t.busy_elsewhere, t.messages_sent, t.bytes_sent);
    out_ << "]";
  }

  template <class... Arguments>
  void add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    out_ << (first_ ? "\n" : ",\n") << fmt::format(format, std::forward<Arguments>(arguments)...);
    first_ = false;
  }

  /// The event's position in its program, and what it waits for. Values that follow from others are omitted to keep
  /// large traces readable.
  static std::string program(const TraceEvent& event) {
    if (event.first == 0) return "";
    std::string text = fmt::format(R"(, "first": {})", event.first);
    if (event.last != event.first) text += fmt::format(R"(, "last": {})", event.last);
    if (const TraceCompute* c = event.compute()) {
      if (c->own > 0 && event.end - event.begin > c->own * (1 + 1e-9))
        text += fmt::format(R"(, "own_seconds": {:.9g})", c->own);
      if (c->launch > 0) text += fmt::format(R"(, "launch_seconds": {:.4g})", c->launch);
      if (c->moved > 0) text += fmt::format(R"(, "flop": {:.9g}, "moved_bytes": {:.9g})", c->flop, c->moved);
      for (const TraceUse& u : c->uses)
        text += fmt::format(R"({}["{}", {}, {}, {}])", &u == c->uses.data() ? R"(, "uses": [)" : ", ",
                            u.writes ? "write" : "read", u.block, u.offset, u.bytes);
      if (!c->uses.empty()) text += "]";
    } else if (const TraceTransfer* t = event.transfer()) {
      text += fmt::format(R"(, "group": {}, "messages": [)", t->group);
      for (const TraceMessage& m : t->messages)
        text += fmt::format(R"({}["{}", {}, {}, {:.6g}, {:.6g}, {}, {}])", &m == t->messages.data() ? "" : ", ",
                            m.sends ? "send" : "receive", m.peer, m.bytes, m.latency, m.seconds, m.block, m.offset);
      text += "]";
    } else if (const TraceRegion* r = event.region()) {
      if (r->phase) text += R"(, "phase": true)";
      if (r->cut) text += R"(, "cut": true)";
      if (r->bytes > 0) text += fmt::format(R"(, "bytes": {})", r->bytes);
    }
    return text;
  }

  std::ostream& out_;
  bool first_ = true;
};

}  // namespace

void write_chrome_trace(const Trace& trace, std::ostream& out, const std::string& title) {
  EventList list(trace, out, title);
  int process = -1, thread = 0;
  auto write_lanes = [&](const std::vector<const TraceEvent*>& events, const std::string& name) {
    int lane_number = 0;
    for (const auto& lane : lanes(events, true)) {
      list.name("thread_name", process, thread, ++lane_number == 1 ? name : fmt::format("{} ({})", name, lane_number));
      list.order(process, thread);
      for (const TraceEvent* event : lane) list.event(*event, thread);
      ++thread;
    }
  };
  for (TraceRow& row : trace_rows(trace)) {
    if (row.rank != process) {
      process = row.rank;
      thread = 0;
      list.name("process_name", process, 0, fmt::format("rank {}", process));
    }
    write_lanes(merged_by_begin(row.regions, row.work), row.queue_name);
    write_lanes(row.transfers, row.queue_name + kTransfers);
  }
  for (const TraceClosure& closure : trace.closures)
    list.closure(closure, trace.queues[static_cast<std::size_t>(closure.queue)]);
  for (const TraceBlock& block : trace.blocks) list.block(block);
  for (const TraceStuck& stuck : trace.stuck) list.stuck(stuck, trace);
  for (const TraceRace& race : trace.races) list.race(race, trace);
}

void write_trace(const Trace& trace, const std::string& path, const std::string& title) {
  std::ostringstream text;
  write_chrome_trace(trace, text, title);
  write_atomically(path, text.str());
}

}  // namespace lockstep
