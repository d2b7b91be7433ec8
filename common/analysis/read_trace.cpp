// Reads traces. Takes events one at a time while parsing, so that a file of 100 MB does not become a tree of 2 GB.
#include "common/analysis/read_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "common/analysis/layout.hpp"
#include "common/error.hpp"
#include "common/support/json/document.hpp"
#include "common/support/text/files.hpp"

namespace lockstep {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(Verdict::usage, fmt::format("trace {}: {}", path, why));
}

/// Checks that numbers are in a possible range, so that calculations with them stay finite.
int rank_of(const Json& json) {
  const int rank = json;
  if (rank < 0 || rank >= 1 << 24) throw JsonError(fmt::format("rank {}", rank));
  return rank;
}
double instant_of(const Json& json) {
  const double time = json;
  if (!(std::abs(time) <= 1e15)) throw JsonError(fmt::format("a time of {:g}", time));
  return time;
}
double duration_of(const Json& json) {
  const double time = instant_of(json);
  if (time < 0) throw JsonError(fmt::format("a duration of {:g}", time));
  return time;
}

class Reader {
 public:
  explicit Reader(std::string path) : path_(std::move(path)) {}

  Trace read(const std::string& text) {
    try {
      head(Json::parse(text, 2, [this](const Json& event) { take(event); }));
    } catch (const JsonError& error) {
      refuse(path_,
             fmt::format("this is not a trace that ./lab train --trace FILE.json wrote, or it was cut short ({})",
                         error.what()));
    }
    if (trace_.events.empty() && trace_.stuck.empty() && trace_.races.empty())
      refuse(path_, "it is empty: nothing happened in that run");
    for (std::size_t i = 0; i < trace_.events.size(); ++i) trace_.events[i].queue = queue_of(i);
    return std::move(trace_);
  }

 private:
  void head(const Json& document) {
    const Json& other = document.at("otherData");
    if (other.at("program") != "lockstep") refuse(path_, "another program wrote it");
    trace_.modelled = other.value("modelled", false);
    trace_.eager_bytes = other.value("eager_bytes", std::uint64_t{0});
    trace_.verdict = other.value("verdict", "");
    trace_.message = other.value("message", "");
    trace_.stopped = other.value("stopped", false);
    trace_.failed_rank = other.value("failed_rank", -1);
    trace_.backend = other.value("backend", "");
    trace_.machine = other.value("machine", "");
    trace_.title = other.value("title", "");
    trace_.code = other.value("code", "");
    if (const Json* ledgers = other.find("ledgers"))
      for (const Json& l : *ledgers)
        trace_.totals.push_back({.rank = rank_of(l.at(0)),
                                 .seconds = instant_of(l.at(1)),
                                 .busy = duration_of(l.at(2)),
                                 .waiting = duration_of(l.at(3)),
                                 .busy_elsewhere = duration_of(l.at(4)),
                                 .messages_sent = l.at(5),
                                 .bytes_sent = l.at(6)});
  }

  void take(const Json& event) {
    const std::string kind = event.at("ph");
    if (kind == "X") return complete(event);
    if (event.at("name") == "thread_name") names_[{event.at("pid"), event.at("tid")}] = event.at("args").at("name");
    if (event.at("name") == "closure") closure(event);
    if (event.at("name") == "block") block(event);
    if (event.at("name") == "stuck") stuck(event);
    if (event.at("name") == "race") race(event);
  }

  void complete(const Json& event) {
    const Json& arguments = event.at("args");
    TraceEvent& e = trace_.events.emplace_back();
    e.what = what_of(event.at("cat"), arguments);
    e.rank = rank_of(event.at("pid"));
    e.name = event.at("name");
    e.where = arguments.at("where");
    e.begin = instant_of(event.at("ts")) * 1e-6;
    e.end = e.begin + duration_of(event.at("dur")) * 1e-6;
    e.first = arguments.value("first", std::uint64_t{0});
    e.last = arguments.value("last", e.first);
    threads_.push_back(event.at("tid"));
  }

  static decltype(TraceEvent::what) what_of(const std::string& category, const Json& a) {
    if (category == "compute") {
      TraceCompute compute;
      if (const Json* own = a.find("own_seconds")) compute.own = duration_of(*own);
      if (const Json* launch = a.find("launch_seconds")) compute.launch = duration_of(*launch);
      if (const Json* uses = a.find("uses"))
        for (const Json& u : *uses) compute.uses.push_back({u.at(1), u.at(2), u.at(3), u.at(0) == "write"});
      return compute;
    }
    if (category == "transfer") {
      TraceTransfer transfer{.group = a.value("group", 0u)};
      if (const Json* messages = a.find("messages"))
        for (const Json& m : *messages) transfer.messages.push_back(message(m));
      return transfer;
    }
    if (category == "region")
      return TraceRegion{a.value("phase", false), a.value("cut", false), a.value("bytes", std::uint64_t{0})};
    if (category == "wait") return TraceWait{};
    throw JsonError("category " + category);
  }

  static TraceMessage message(const Json& m) {
    TraceMessage message{rank_of(m.at(1)), m.at(0) == "send", m.at(2), duration_of(m.at(3)), duration_of(m.at(4))};
    if (m.size() > 6) message.block = m.at(5), message.offset = m.at(6);
    return message;
  }

  void block(const Json& event) {
    const Json& a = event.at("args");
    trace_.blocks.push_back({.rank = rank_of(event.at("pid")),
                             .id = a.at("id"),
                             .category = a.at("category"),
                             .bytes = a.at("bytes"),
                             .begin = instant_of(a.at("seconds").at(0)),
                             .end = instant_of(a.at("seconds").at(1)),
                             .uploaded = a.at("uploaded")});
  }

  void stuck(const Json& event) {
    const Json& a = event.at("args");
    const std::string needs = a.at("needs_queue");
    const int rank = a.at("needs_rank");
    trace_.stuck.push_back({.rank = rank_of(event.at("pid")),
                            .queue = index_of(a.at("queue")),
                            .needs_rank = rank < 0 ? -1 : rank_of(a.at("needs_rank")),
                            .needs_queue = needs.empty() ? -1 : index_of(needs),
                            .link = a.at("link"),
                            .where = a.at("where"),
                            .reason = a.at("reason")});
  }

  void race(const Json& event) {
    const Json& a = event.at("args");
    const auto access = [&](const Json& of) {
      return TraceAccess{.queue = index_of(of.at(0)),
                         .position = of.at(1),
                         .time = instant_of(of.at(2)),
                         .writes = of.at(3),
                         .what = of.at(4),
                         .where = of.at(5)};
    };
    trace_.races.push_back({.rank = rank_of(event.at("pid")),
                            .block = a.at("block"),
                            .offset = a.at("offset"),
                            .bytes = a.at("bytes"),
                            .category = a.at("category"),
                            .allocated = a.at("allocated"),
                            .first = access(a.at("first")),
                            .second = access(a.at("second"))});
  }

  void closure(const Json& event) {
    const Json& a = event.at("args");
    trace_.closures.push_back({.rank = rank_of(event.at("pid")),
                               .queue = index_of(a.at("queue")),
                               .issued = a.at("issued"),
                               .first = a.at("first"),
                               .last = a.at("last"),
                               .waited = a.at("waited"),
                               .given = instant_of(a.at("seconds").at(0)),
                               .begin = instant_of(a.at("seconds").at(1)),
                               .end = instant_of(a.at("seconds").at(2))});
  }

  /// Returns the queue of an event, given by its thread's name: "comm", "comm (2)", "comm: transfers (2)".
  int queue_of(std::size_t event) {
    const auto known = names_.find({trace_.events[event].rank, threads_[event]});
    if (known == names_.end()) refuse(path_, "an event is on a line that has no name");
    std::string name = known->second;
    if (name.ends_with(")")) name.resize(std::min(name.size(), name.rfind(" (")));
    if (name.ends_with(kTransfers)) name.resize(name.size() - std::string_view(kTransfers).size());
    return index_of(name);
  }

  int index_of(const std::string& queue) {
    const auto known = std::find(trace_.queues.begin(), trace_.queues.end(), queue);
    const auto index = known - trace_.queues.begin();
    if (known == trace_.queues.end()) trace_.queues.push_back(queue);
    return static_cast<int>(index);
  }

  std::string path_;
  Trace trace_{.queues = {"main"}};
  std::vector<int> threads_;  // by event
  std::map<std::pair<int, int>, std::string> names_;
};

}  // namespace

Trace read_chrome_trace(const std::string& path) { return parse_chrome_trace(read_file(path), path); }
Trace parse_chrome_trace(const std::string& text, const std::string& path) { return Reader(path).read(text); }

}  // namespace lockstep
