#include "common/analysis/labels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "common/chunk.hpp"
#include "common/runtime/trace/program_notes.hpp"
#include "common/support/text/units.hpp"

namespace lockstep::analysis {
namespace {

/// Index of the chunk that begins at `offset`, or −1.
int chunk_at(std::uint64_t bytes, int parts, std::uint64_t width, std::uint64_t offset) {
  for (int i = 0; i < parts; ++i)
    if (chunk_range(bytes / width, i, parts).offset * width == offset) return i;
  return -1;
}

bool before(const TraceClosure* a, const TraceClosure* b) { return a->first < b->first; }

/// True for "bucket 2 of 5", a name that the program has numbered.
bool is_numbered(const std::string& name) {
  const std::size_t digits = name.find_last_not_of("0123456789");
  return digits != std::string::npos && digits + 1 < name.size() && digits >= 3 && name.substr(digits - 3, 4) == " of ";
}

/// Visits to regions of one name, in order.
struct Visits {
  std::vector<int> events;
};

class Namer {
 public:
  Namer(const Trace& trace, const std::vector<Flight>& flights) : trace_(trace), flights_(flights) {
    names_.events.resize(trace.events.size());
    names_.messages.resize(flights.size());
    names_.places.resize(trace.events.size());
  }

  Labels make() {
    note_regions();
    note_groups();
    name_regions();
    note_arrays();
    note_closures();
    for (std::size_t i = 0; i < flights_.size(); ++i) names_.messages[i] = name_of(flights_[i]);
    for (std::size_t i = 0; i < trace_.events.size(); ++i)
      if (!trace_.events[i].region()) names_.events[i] = trace_.events[i].name;
    name_transfers();
    name_waits();
    for (std::size_t i = 0; i < trace_.events.size(); ++i)
      if (trace_.events[i].transfer())
        if (const TraceEvent* c = collective_of(trace_.events[i])) names_.places[i] = place_of(c);
    return std::move(names_);
  }

 private:
  const TraceEvent& event(int index) const { return trace_.events[static_cast<std::size_t>(index)]; }

  void note_regions() {
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const TraceEvent& e = trace_.events[i];
      const TraceRegion* region = e.region();
      if (!region) continue;
      if (e.queue == 0 && region->phase && e.name == "step") steps_[e.rank].push_back(e.begin);
      regions_[{e.rank, e.queue}].push_back(static_cast<int>(i));
      if (region->bytes > 0) collectives_[{e.rank, e.queue}].push_back(static_cast<int>(i));
    }
    for (const TraceBlock& block : trace_.blocks)
      if (block.uploaded) arrays_[{block.rank, block.id}] = block.bytes;
    for (auto& [rank, begins] : steps_) std::sort(begins.begin(), begins.end());
    for (auto* all : {&regions_, &collectives_})
      for (auto& [key, list] : *all)
        std::sort(list.begin(), list.end(),
                  [&](int a, int b) {  // if equal, phases enclose other regions, and later-closed ones the earlier
                    const auto key = [&](int index) {
                      return std::tuple(event(index).first, -static_cast<long long>(event(index).last),
                                        !event(index).region()->phase, -index);
                    };
                    return key(a) < key(b);
                  });
  }

  void note_groups() {
    for (const TraceEvent& e : trace_.events)
      if (const TraceTransfer* transfer = e.transfer()) {
        std::set<int>& members = members_[transfer->group];
        members.insert(e.rank);
        for (const TraceMessage& m : transfer->messages) members.insert(m.peer);
      }
  }

  /// Size of a group. Ranks outside the trace are known only for the world.
  int size_of(std::uint32_t group) const {
    std::vector<int> world(trace_.totals.size());
    std::iota(world.begin(), world.end(), 0);
    return static_cast<int>(group == group_name(world) ? world.size() : members_.at(group).size());
  }

  long step_of(const TraceEvent& e) const {
    const auto steps = steps_.find(e.rank);
    if (steps == steps_.end()) return 0;
    return std::upper_bound(steps->second.begin(), steps->second.end(), e.begin) - steps->second.begin();
  }

  /// Notes the regions within one that the program has numbered.
  void note_numbered(const std::vector<int>& list) {
    const TraceEvent* around = nullptr;
    for (int index : list) {
      const TraceEvent& e = event(index);
      if (around && e.first > 0 && e.last <= around->last && e.first >= around->first) around_[&e] = around;
      if (e.region()->phase && is_numbered(e.name)) around = &e;
    }
  }
  std::string part_of(const TraceEvent* collective, const std::string& what) const {
    const auto known = around_.find(collective);
    return known == around_.end() ? what : known->second->name + ": " + what;
  }

  std::string place_of(const TraceEvent* collective) const {
    return part_of(collective, names_.events[index_of(collective)]);
  }

  /// Names regions: "ring_all_reduce 2 of 5" is numbered within a step of the program. A single one has only its name,
  /// and so have those within a region that the program has numbered.
  void name_regions() {
    for (const auto& [key, list] : regions_) {
      note_numbered(list);
      std::map<std::pair<std::string, long>, Visits> visits;
      for (int index : list) visits[{event(index).name, step_of(event(index))}].events.push_back(index);
      for (const auto& [name, all] : visits)
        for (std::size_t k = 0; k < all.events.size(); ++k) {
          std::string& label = names_.events[static_cast<std::size_t>(all.events[k])];
          const TraceEvent& e = event(all.events[k]);
          label = e.name;
          if (all.events.size() > 1 && !is_numbered(e.name) && !around_.contains(&e))
            label += fmt::format(" {} of {}", k + 1, all.events.size());
          if (e.region()->bytes > 0) label += ", " + format_bytes(static_cast<double>(e.region()->bytes));
        }
    }
  }

  /// Returns the innermost collective around a transfer, or null.
  const TraceEvent* collective_of(const TraceEvent& e) const {
    constexpr int kDeepest = 8;  // nested collectives
    const auto list = collectives_.find({e.rank, e.queue});
    if (list == collectives_.end() || e.first == 0) return nullptr;
    auto at = std::partition_point(list->second.begin(), list->second.end(),
                                   [&](int r) { return event(r).first <= e.first; });
    for (int tried = 0; at != list->second.begin() && tried < kDeepest; ++tried)
      if (const TraceEvent& r = event(*--at); r.last >= e.first) return &r;
    return nullptr;
  }

  /// Notes the offset of each collective's array in its allocation: the smallest offset of any message of the visit.
  /// For a rank that never sends the first chunk, other ranks send it from the same offset.
  void note_arrays() {
    std::map<std::tuple<std::string, int, std::uint64_t>, long> numbers;
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const TraceEvent& e = trace_.events[i];
      const TraceEvent* collective = e.transfer() ? collective_of(e) : nullptr;
      if (!collective) continue;
      for (const TraceMessage& m : e.transfer()->messages) {
        if (!m.sends || m.block == 0) continue;
        auto [known, fresh] = begins_.try_emplace({collective, m.block}, m.offset);
        known->second = std::min(known->second, m.offset);
        auto [all, first] = all_begins_.try_emplace({place_of(collective), e.queue, m.block}, m.offset);
        all->second = std::min(all->second, m.offset);
      }
    }
  }
  std::size_t index_of(const TraceEvent* e) const { return static_cast<std::size_t>(e - trace_.events.data()); }

  std::string name_of(const Flight& flight) const {
    const bool sent = flight.from >= 0;
    const TraceEvent& e = event(sent ? flight.from : flight.to);
    const TraceMessage& m = sent ? *flight.sent : *flight.received;
    const TraceEvent* collective = collective_of(e);
    if (sent && !collective)
      if (const std::string* step = step_before(e)) return *step;
    if (!sent || !collective || m.block == 0) return array_part(e, m);
    std::uint64_t begin = begins_.at({collective, m.block});
    const auto elsewhere = all_begins_.find({place_of(collective), e.queue, m.block});
    const std::uint64_t bytes = collective->region()->bytes;
    if (elsewhere != all_begins_.end() && elsewhere->second + bytes >= begin + m.bytes)
      begin = std::min(begin, elsewhere->second);
    return part_of(collective, part_name(bytes, size_of(e.transfer()->group), m.offset - begin, m.bytes));
  }

  void note_closures() {
    for (const TraceClosure& c : trace_.closures) closures_[{c.rank, c.queue}].push_back(&c);
    for (auto& [key, list] : closures_) std::stable_sort(list.begin(), list.end(), before);
    for (const auto& [key, list] : regions_)
      for (int index : list)
        if (key.second == 0 && is_pipeline_step(event(index))) pipeline_[key.first].push_back(index);
  }

  /// Name of the step whose result a stage sends outside its program: the last one before. Null if there is none.
  const std::string* step_before(const TraceEvent& e) const {
    const auto steps = pipeline_.find(e.rank);
    const auto list = closures_.find({e.rank, e.queue});
    if (steps == pipeline_.end() || list == closures_.end()) return nullptr;
    const TraceClosure place{.first = e.first};
    const auto closure = std::upper_bound(list->second.begin(), list->second.end(), &place, before);
    if (closure == list->second.begin()) return nullptr;
    const std::uint64_t issued = (*(closure - 1))->issued;
    const auto step = std::partition_point(steps->second.begin(), steps->second.end(),
                                           [&](int index) { return event(index).first <= issued; });
    return step == steps->second.begin() ? nullptr : &event(*(step - 1)).name;
  }

  /// Names a part of an uploaded array outside a collective, for example in the test of one half of a ring.
  std::string array_part(const TraceEvent& e, const TraceMessage& m) const {
    if (m.block == 0) return format_bytes(static_cast<double>(m.bytes));
    const auto array = arrays_.find({e.rank, m.block});
    return array == arrays_.end() ? format_bytes(static_cast<double>(m.bytes))
                                  : part_name(array->second, size_of(e.transfer()->group), m.offset, m.bytes);
  }

  void name_transfers() {
    std::map<int, std::string> sends, receives;
    for (std::size_t i = 0; i < flights_.size(); ++i) {
      const Flight& f = flights_[i];
      const auto add = [&](std::string& text, int peer, const char* preposition) {
        text += fmt::format("{}{} {} rank {}", text.empty() ? "" : ", ", names_.messages[i], preposition, peer);
      };
      if (f.from >= 0) add(sends[f.from], f.sent->peer, "to");
      if (f.to >= 0) add(receives[f.to], f.received->peer, "from");
    }
    awaited_ = sends;
    for (const auto& [index, text] : receives) awaited_[index] = text;
    for (const auto& [index, text] : receives) names_.events[static_cast<std::size_t>(index)] = "receive " + text;
    for (const auto& [index, text] : sends) {
      const auto both = receives.find(index);
      names_.events[static_cast<std::size_t>(index)] =
          "send " + text + (both == receives.end() ? "" : "; receive " + both->second);
    }
  }

  /// Names waits by the awaited operation: the last of the transfers, or the queue of the closure.
  void name_waits() {
    std::map<std::tuple<int, int, std::uint64_t>, std::string> awaited;
    std::map<std::tuple<int, int, std::uint64_t>, double> ends;
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const TraceEvent& e = trace_.events[i];
      if (!e.transfer() || e.last == 0) continue;
      double& end = ends[{e.rank, e.queue, e.last}];
      if (e.end < end) continue;
      end = e.end;
      if (const auto named = awaited_.find(static_cast<int>(i)); named != awaited_.end())
        awaited[{e.rank, e.queue, e.last}] = named->second;
    }
    for (const TraceClosure& c : trace_.closures)
      if (c.waited > 0) awaited[{c.rank, 0, c.waited}] = "queue " + trace_.queues[static_cast<std::size_t>(c.queue)];
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const TraceEvent& e = trace_.events[i];
      if (!e.wait()) continue;
      if (const auto known = awaited.find({e.rank, e.queue, e.first}); known != awaited.end())
        names_.events[i] = "wait: " + known->second;
    }
  }

  const Trace& trace_;
  const std::vector<Flight>& flights_;
  Labels names_;
  std::map<std::pair<int, int>, std::vector<int>> regions_;  // by (rank, queue), outer ones first
  std::map<std::pair<int, int>, std::vector<int>> collectives_;
  std::map<std::pair<int, std::uint64_t>, std::uint64_t> arrays_;  // bytes of uploaded arrays, by (rank, block)
  std::map<int, std::vector<double>> steps_;                       // by rank: their beginnings
  std::map<std::uint32_t, std::set<int>> members_;                 // by group: its ranks in the trace
  std::map<std::pair<int, int>, std::vector<const TraceClosure*>> closures_;  // by (rank, queue), in order
  std::map<int, std::vector<int>> pipeline_;               // by rank: main's regions that are steps of a schedule
  std::map<const TraceEvent*, const TraceEvent*> around_;  // by region: the numbered one that contains it
  std::map<int, std::string> awaited_;                     // by transfer: its receives; if there are none, its sends
  std::map<std::pair<const TraceEvent*, std::uint64_t>, std::uint64_t> begins_;
  std::map<std::tuple<std::string, int, std::uint64_t>, std::uint64_t> all_begins_;
};

}  // namespace

std::string part_name(std::uint64_t bytes, int parts, std::uint64_t offset, std::uint64_t length) {
  if (offset == 0 && length == bytes) return "the whole array";
  for (const std::uint64_t width : {4u, 2u, 1u, 8u}) {
    if (bytes % width != 0 || parts < 1) continue;
    const int first = chunk_at(bytes, parts, width, offset);
    if (first < 0) continue;
    std::uint64_t end = offset;
    for (int last = first; last < parts && end < offset + length; ++last) {
      end += chunk_range(bytes / width, last, parts).size * width;
      if (end == offset + length)
        return first == last ? fmt::format("chunk {}", first) : fmt::format("chunks {} to {}", first, last);
    }
  }
  if (length == 0) return "an empty chunk";
  return fmt::format("bytes {} to {}", offset, offset + length);
}

bool is_pipeline_step(const TraceEvent& e) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return e.name.size() > 1 && std::string("FBIW").find(e.name[0]) != std::string::npos && digit(e.name[1]);
}

Labels labels_of(const Trace& trace, const std::vector<Flight>& flights) { return Namer(trace, flights).make(); }

}  // namespace lockstep::analysis
