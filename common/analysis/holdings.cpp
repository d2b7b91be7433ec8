#include "common/analysis/holdings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "common/analysis/layout.hpp"
#include "common/analysis/shares.hpp"
#include "common/chunk.hpp"

namespace lockstep::analysis {
namespace {

constexpr int kMostRanks = 16;
constexpr std::uint64_t kMostBytes = 4096, kWidth = 4;  // kWidth: bytes per element
constexpr std::size_t kMostSteps = 200;

/// Number of times that an element contains each rank's value. `known` is false if nothing was written there, or
/// something else.
struct Sum {
  std::vector<int> count;
  bool known = false;
  bool operator==(const Sum&) const = default;
};
using Array = std::vector<Sum>;

/// An operation of a rank that reads or changes its memory, in the rank's order.
struct MemoryEvent {
  enum class Kind : unsigned char { received, computed, sent };  // the order at the same time
  long long time;  // whole nanoseconds, as in files: an operation that follows immediately has the same time
  Kind kind;
  std::uint64_t position;
  int index;  // index of the event, or the flight
};

class Follower {
 public:
  Follower(const Trace& trace, const std::vector<Flight>& flights) : trace_(trace), flights_(flights) {}

  Holdings follow() {
    if (!find_arrays()) return std::move(result_);
    list_memory_events();
    for (int rank = 0; rank < result_.ranks; ++rank) snapshot(rank, 0);
    play_all();
    for (int rank = 0; rank < result_.ranks; ++rank) snapshot(rank, step_[rank]);
    fill_gaps();
    return std::move(result_);
  }

 private:
  const TraceEvent& event(int index) const { return trace_.events[static_cast<std::size_t>(index)]; }
  bool give_up(std::string why) {
    result_.none = std::move(why);
    return false;
  }

  bool find_arrays() {
    std::set<int> ranks;
    std::set<std::pair<int, std::uint64_t>> sent;  // blocks
    std::map<int, std::size_t> batches;
    for (const TraceEvent& e : trace_.events) {
      ranks.insert(e.rank);
      if (!e.transfer()) continue;
      if (++batches[e.rank] > kMostSteps)
        return give_up(fmt::format("only of runs with at most {} batches of messages per rank", kMostSteps));
      for (const TraceMessage& m : e.transfer()->messages)
        if (m.sends) sent.insert({e.rank, m.block});
    }
    result_.ranks = static_cast<int>(std::max(ranks.size(), trace_.totals.size()));
    if (result_.ranks > kMostRanks) return give_up(fmt::format("only of runs with at most {} ranks", kMostRanks));
    if (trace_.blocks.empty())
      return give_up("this trace does not say what operations read and write: a GPU's does not, nor an older one");
    for (const TraceBlock& block : trace_.blocks) {
      bytes_[{block.rank, block.id}] = block.bytes;
      if (!block.uploaded || block.rank >= result_.ranks) continue;
      if (block.bytes > kMostBytes) return give_up(fmt::format("only of arrays of at most {} bytes", kMostBytes));
      Array& array = arrays_[{block.rank, block.id}] = Array(block.bytes / kWidth, nothing());
      for (Sum& sum : array) sum.known = true, sum.count[static_cast<std::size_t>(block.rank)] = 1;
      if (trace_.events.empty() || sent.empty() || sent.contains({block.rank, block.id}))
        shown_.try_emplace(block.rank, block.id);
    }
    if (static_cast<int>(shown_.size()) < result_.ranks)
      return give_up("only of runs in which each rank sends of an array that was uploaded");
    std::size_t most = 0;
    for (const auto& [rank, id] : shown_) most = std::max(most, arrays_[{rank, id}].size());
    if (most == 0) return give_up("the arrays are empty");
    result_.chunks = std::min<std::size_t>(static_cast<std::size_t>(result_.ranks), most);
    return true;
  }

  Sum nothing() const { return {std::vector<int>(static_cast<std::size_t>(result_.ranks)), false}; }

  void list_memory_events() {
    for (std::size_t i = 0; i < flights_.size(); ++i) {
      const Flight& f = flights_[i];
      const int index = static_cast<int>(i);
      if (f.from >= 0)
        memory_events_[event(f.from).rank].push_back(
            {nanoseconds(event(f.from).begin), MemoryEvent::Kind::sent, event(f.from).first, index});
      if (f.to >= 0)
        memory_events_[event(f.to).rank].push_back(
            {nanoseconds(event(f.to).end), MemoryEvent::Kind::received, event(f.to).first, index});
    }
    for (std::size_t i = 0; i < trace_.events.size(); ++i)
      if (const TraceEvent& e = trace_.events[i]; e.compute())
        memory_events_[e.rank].push_back(
            {nanoseconds(e.end), MemoryEvent::Kind::computed, e.first, static_cast<int>(i)});
    for (auto& [rank, events] : memory_events_)
      std::sort(events.begin(), events.end(), [](const MemoryEvent& a, const MemoryEvent& b) {
        return std::tie(a.time, a.kind, a.position, a.index) < std::tie(b.time, b.kind, b.position, b.index);
      });
  }

  /// Plays each rank in its own order, and no receive before its send. Clocks of different processes are not compared.
  void play_all() {
    std::map<int, std::size_t> next;
    const auto can_go = [&](const MemoryEvent& e) {
      return e.kind != MemoryEvent::Kind::received || flights_[static_cast<std::size_t>(e.index)].from < 0 ||
             in_flight_.contains(e.index);
    };
    while (true) {
      bool moved = false;
      const MemoryEvent* earliest = nullptr;
      int held_up = 0;
      for (const auto& [rank, events] : memory_events_) {
        std::size_t& at = next[rank];
        for (; at < events.size() && can_go(events[at]); ++at, moved = true) play(events[at]);
        if (at < events.size() && (!earliest || events[at].time < earliest->time))
          earliest = &events[at], held_up = rank;
      }
      if (!earliest) return;
      if (!moved) play(*earliest), ++next[held_up];  // all take no time
    }
  }

  void play(const MemoryEvent& e) {
    if (e.kind == MemoryEvent::Kind::computed) return compute(event(e.index), event(e.index).compute()->uses);
    const Flight& f = flights_[static_cast<std::size_t>(e.index)];
    if (e.kind == MemoryEvent::Kind::sent) {
      begin_batch(f.from);
      in_flight_[e.index] = part(event(f.from).rank, f.sent->block, f.sent->offset, f.sent->bytes);
      return;
    }
    begin_batch(f.to);
    const TraceMessage& m = *f.received;
    put(event(f.to).rank, m.block, m.offset, f.from < 0 ? Array(m.bytes / kWidth, nothing()) : in_flight_[e.index]);
  }

  /// Starts a batch: the rank holds the result of its previous one.
  void begin_batch(int batch) {
    if (!begun_.insert(batch).second) return;
    const int rank = event(batch).rank;
    std::size_t& step = step_[rank];
    snapshot(rank, step);
    ++step;
    time_[{step, rank}] = event(batch).end;
  }

  Array* array_of(int rank, std::uint64_t block) {
    const auto known = arrays_.find({rank, block});
    if (known != arrays_.end()) return &known->second;
    const auto bytes = bytes_.find({rank, block});
    if (bytes == bytes_.end() || bytes->second > kMostBytes) return nullptr;
    return &(arrays_[{rank, block}] = Array(bytes->second / kWidth, nothing()));
  }

  Array part(int rank, std::uint64_t block, std::uint64_t offset, std::uint64_t bytes) {
    Array copy(bytes / kWidth, nothing());
    const Array* array = array_of(rank, block);
    for (std::size_t i = 0; array && i < copy.size() && offset / kWidth + i < array->size(); ++i)
      copy[i] = (*array)[offset / kWidth + i];
    return copy;
  }

  void put(int rank, std::uint64_t block, std::uint64_t offset, const Array& values) {
    Array* array = array_of(rank, block);
    for (std::size_t i = 0; array && i < values.size() && offset / kWidth + i < array->size(); ++i)
      (*array)[offset / kWidth + i] = values[i];
  }

  /// Follows z = x + y, y += x and y = x. Scaling does not change a sum's terms, and filled memory holds no rank's
  /// value.
  void compute(const TraceEvent& e, const std::vector<TraceUse>& uses) {
    if (uses.empty()) return;
    std::vector<Array> read;
    const TraceUse* target = nullptr;
    for (const TraceUse& use : uses)
      if (use.writes)
        target = &use;
      else
        read.push_back(part(e.rank, use.block, use.offset, use.bytes));
    if (!target || e.name == "scale") return;
    Array sum(target->bytes / kWidth, nothing());
    if (e.name == "fill")
      for (Sum& element : sum) element.known = true;
    if (e.name == "copy" && !read.empty()) sum = read.front();
    if (e.name == "add") {
      if (read.size() == 1) read.push_back(part(e.rank, target->block, target->offset, target->bytes));
      sum = added(read);
    }
    put(e.rank, target->block, target->offset, sum);
    double& until = time_[{step_[e.rank], e.rank}];  // the step's state is complete only now
    until = std::max(until, e.end);
  }

  Array added(const std::vector<Array>& parts) const {
    Array sum = parts.front();
    for (std::size_t k = 1; k < parts.size(); ++k)
      for (std::size_t i = 0; i < std::min(sum.size(), parts[k].size()); ++i) {
        sum[i].known = sum[i].known && parts[k][i].known;
        for (std::size_t r = 0; r < sum[i].count.size(); ++r) sum[i].count[r] += parts[k][i].count[r];
      }
    return sum;
  }

  void snapshot(int rank, std::size_t step) {
    if (result_.steps.size() <= step) {
      result_.steps.resize(step + 1, std::vector<std::vector<Held>>(static_cast<std::size_t>(result_.ranks)));
      result_.times.resize(step + 1, std::vector<double>(static_cast<std::size_t>(result_.ranks)));
    }
    const Array& array = arrays_[{rank, shown_[rank]}];
    std::vector<Held> row;
    for (std::size_t c = 0; c < result_.chunks; ++c) {
      const ChunkRange range = chunk_range(array.size(), static_cast<int>(c), static_cast<int>(result_.chunks));
      row.push_back(held(array, range));
    }
    result_.steps[step][static_cast<std::size_t>(rank)] = std::move(row);
    result_.times[step][static_cast<std::size_t>(rank)] = time_[{step, rank}];
  }

  Held held(const Array& array, ChunkRange range) const {
    Held all;
    std::vector<std::string> texts;
    all.complete = range.size > 0;
    for (std::size_t i = range.offset; i < range.offset + range.size; ++i) {
      const Held one = held(array[i]);
      all.complete = all.complete && one.complete;
      all.twice = all.twice || one.twice;
      if (std::find(texts.begin(), texts.end(), one.text) == texts.end()) texts.push_back(one.text);
    }
    for (const std::string& text : texts) all.text += (all.text.empty() ? "" : " | ") + text;
    return all;
  }

  static Held held(const Sum& sum) {
    Held one{.text = "", .complete = sum.known};
    if (!sum.known) return {.text = "–"};
    for (std::size_t r = 0; r < sum.count.size(); ++r) {
      one.complete = one.complete && sum.count[r] == 1;
      one.twice = one.twice || sum.count[r] > 1;
      for (int k = 0; k < std::min(sum.count[r], 2); ++k)
        one.text += fmt::format("{}{}", one.text.empty() ? "" : "+", r);
    }
    if (one.text.empty()) one.text = "zero";
    return one;
  }

  /// Ranks that have ended, or have fewer batches, keep what they hold.
  void fill_gaps() {
    for (std::size_t s = 1; s < result_.steps.size(); ++s)
      for (std::size_t r = 0; r < result_.steps[s].size(); ++r) {
        const std::size_t own = step_[static_cast<int>(r)];
        if (s <= own) continue;
        result_.steps[s][r] = result_.steps[own][r];
        result_.times[s][r] = result_.times[own][r];
      }
  }

  const Trace& trace_;
  const std::vector<Flight>& flights_;
  Holdings result_;
  std::map<std::pair<int, std::uint64_t>, std::uint64_t> bytes_;  // by (rank, block)
  std::map<std::pair<int, std::uint64_t>, Array> arrays_;         // likewise
  std::map<int, std::uint64_t> shown_;                            // block, by rank
  std::map<int, std::vector<MemoryEvent>> memory_events_;         // by rank
  std::map<int, Array> in_flight_;                                // by flight
  std::set<int> begun_;                                           // batches
  std::map<int, std::size_t> step_;                               // by rank: number of batches begun
  std::map<std::pair<std::size_t, int>, double> time_;            // by (step, rank)
};

}  // namespace

Holdings holdings_of(const Trace& trace, const std::vector<Flight>& flights) {
  return Follower(trace, flights).follow();
}

}  // namespace lockstep::analysis
