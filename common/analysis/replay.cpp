#include "common/analysis/replay.hpp"

#include <algorithm>
#include <queue>
#include <tuple>
#include <utility>

#include "common/error.hpp"

namespace lockstep::analysis {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// The event that determined a time.
struct Cause {
  enum class Kind : unsigned char { beginning, work, batch };
  Kind kind = Kind::beginning;
  int index = 0;
};

class Player {
 public:
  Player(const Graph& graph, const WhatIf& what_if)
      : graph_(graph),
        what_if_(what_if),
        lanes_(graph.lanes.size()),
        works_(graph.works.size()),
        batches_(graph.batches.size()),
        messages_(graph.messages.size()),
        closures_(graph.closures.size()) {
    if (what_if.equal_work) share_work();
    for (std::size_t lane = 1; lane < lanes_.size(); ++lane)
      lanes_[lane].main = graph.lanes[lane].queue == 0 ? static_cast<int>(lane) : lanes_[lane - 1].main;
    for (std::size_t b = 0; b < batches_.size(); ++b)
      if (const int before = graph.batches[b].before; before >= 0) batches_[at(before)].next = static_cast<int>(b);
  }

  Replay play() {
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) wake(static_cast<int>(lane), 0);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      if (event.kind == Event::Kind::lane)
        resume(event.index);
      else if (event.kind == Event::Kind::work)
        end_work(event.index);
      else
        complete(event.index);
    }
    return finish();
  }

 private:
  struct LaneState {
    int main = 0;  // lane of its rank's main
    std::size_t next = 0;
    double clock = 0;
    Cause cause;
    double waited = 0;
    bool working = false;
    double work_end = 0;
    int given = 0;       // main only: closures that have not ended
    bool ahead = false;  // main only: no other lane could observe it, so the simulator let it run ahead of the others'
                         // clocks
  };
  struct WorkState {
    double begin = 0, end = 0;
    Cause before;
  };
  struct BatchState {
    bool posted = false, begun = false, complete = false;
    double post_time = 0, begin = 0, ready = 0, end = 0;  // ready: when the last of the operations that it waited for
                                                          // could start
    Cause post_cause, begin_cause, ready_cause;
    std::size_t pending = 0;
    int next = -1;
    int waiter = -1;  // lane
  };
  struct MessageState {
    bool sender = false, receiver = false;  // true when that end has begun
  };
  struct ClosureState {
    bool given = false, ended = false;
    double given_at = 0, end = 0;
    Cause given_cause, end_cause;
    int waiter = -1, server = -1;  // lanes
  };
  struct Event {
    enum class Kind : unsigned char { batch, work, lane };
    double time;
    std::uint64_t order;
    Kind kind;
    int index;
    bool operator<(const Event& other) const {  // earliest on top
      return std::tie(time, order) > std::tie(other.time, other.order);
    }
  };

  void put(double time, Event::Kind kind, int index) { events_.push({time, ++issued_, kind, index}); }
  void wake(int lane, double time) { put(time, Event::Kind::lane, lane); }

  /// Computes factors that give every rank the mean arithmetic of each step.
  void share_work() {
    const auto ranks = at(graph_.ranks), steps = at(graph_.steps);
    std::vector<double> total(steps), mine(steps * ranks);
    std::vector<std::size_t> place;  // index of each lane's rank: a trace may have only some ranks
    for (const Lane& lane : graph_.lanes)
      place.push_back(place.empty() ? 0 : place.back() + (lane.rank != graph_.lanes[place.size() - 1].rank ? 1 : 0));
    const auto cell = [&](const Activity& w) { return at(w.step) * ranks + place[at(w.lane)]; };
    for (const Activity& w : graph_.works) {
      if (w.kind != Activity::Kind::arithmetic) continue;
      total[at(w.step)] += w.seconds;
      mine[cell(w)] += w.seconds;
    }
    for (const Activity& w : graph_.works)
      shares_.push_back(w.kind == Activity::Kind::arithmetic && mine[cell(w)] > 0
                            ? total[at(w.step)] / graph_.ranks / mine[cell(w)]
                            : 1);
  }

  double seconds_of(int work) const {
    const Activity& w = graph_.works[at(work)];
    if (w.kind == Activity::Kind::host && what_if_.no_launch) return 0;
    if (w.kind == Activity::Kind::data && what_if_.no_data) return 0;
    return (w.seconds - (what_if_.no_launch ? w.launch : 0)) * (shares_.empty() ? 1 : shares_[at(work)]);
  }

  // Lanes -----------------------------------------------------------------------------------------------------------

  void resume(int index) {
    LaneState& lane = lanes_[at(index)];
    const std::vector<Action>& program = graph_.lanes[at(index)].program;
    while (lane.next < program.size()) {
      const Action action = program[lane.next];
      switch (action.kind) {
        case Action::Kind::work: return begin_work(index, action.index);
        case Action::Kind::start: start(index, action.index); break;
        case Action::Kind::give: give(index, action.index); break;
        case Action::Kind::end_closure: end_closure(index, action.index); break;
        case Action::Kind::begin_closure:
          if (!begin_closure(index, action.index)) return;
          break;
        case Action::Kind::await_batch:
          if (!await_batch(index, action.index)) return;
          break;
        case Action::Kind::await_closure:
          if (!await_closure(index, action.index)) return;
          break;
      }
      ++lane.next;
    }
  }

  /// Continues the lane at `time`, because of `cause`, unless its clock is already later.
  void reach(LaneState& lane, double time, Cause cause) {
    if (time <= lane.clock) return;
    lane.waited += time - lane.clock;
    lane.clock = time;
    lane.cause = cause;
  }

  void begin_work(int index, int work) {
    LaneState& lane = lanes_[at(index)];
    const bool watched = lanes_[at(lane.main)].given > 0;
    if (lane.ahead && watched) {  // work that it has issued begins first
      lane.ahead = false;
      return wake(index, lane.clock);
    }
    lane.ahead = lane.main == index && !watched;
    const double seconds = seconds_of(work);
    works_[at(work)] = {lane.clock, lane.clock + seconds, lane.cause};
    lane.work_end = lane.clock + seconds;
    lane.working = true;
    LaneState& main = lanes_[at(lane.main)];
    const bool uses_engine = graph_.works[at(work)].kind == Activity::Kind::arithmetic;
    if (graph_.one_engine && uses_engine && lane.main != index && main.working && lane.clock < main.work_end)
      main.work_end += seconds;
    put(lane.work_end, Event::Kind::work, index);
  }

  void end_work(int index) {
    LaneState& lane = lanes_[at(index)];
    if (now_ < lane.work_end) return put(lane.work_end, Event::Kind::work, index);  // it was lengthened in the meantime
    const int work = graph_.lanes[at(index)].program[lane.next].index;
    works_[at(work)].end = lane.clock = lane.work_end;
    lane.cause = {Cause::Kind::work, work};
    lane.working = false;
    ++lane.next;
    resume(index);
  }

  // Closures --------------------------------------------------------------------------------------------------------

  void give(int index, int closure) {
    ClosureState& c = closures_[at(closure)];
    LaneState& lane = lanes_[at(index)];
    ++lane.given;
    c.given = true;
    c.given_at = lane.clock;
    c.given_cause = lane.cause;
    if (c.server >= 0) wake(std::exchange(c.server, -1), now_);
  }

  bool begin_closure(int index, int closure) {
    ClosureState& c = closures_[at(closure)];
    LaneState& lane = lanes_[at(index)];
    if (!c.given) {
      c.server = index;
      return false;
    }
    reach(lane, c.given_at, c.given_cause);
    return true;
  }

  void end_closure(int index, int closure) {
    ClosureState& c = closures_[at(closure)];
    c.ended = true;
    --lanes_[at(lanes_[at(index)].main)].given;
    c.end = lanes_[at(index)].clock;
    c.end_cause = lanes_[at(index)].cause;
    if (c.waiter >= 0) wake(std::exchange(c.waiter, -1), now_);
  }

  bool await_closure(int index, int closure) {
    ClosureState& c = closures_[at(closure)];
    if (!c.ended) {
      c.waiter = index;
      return false;
    }
    reach(lanes_[at(index)], c.end, c.end_cause);
    return true;
  }

  // Messages --------------------------------------------------------------------------------------------------------

  void start(int index, int batch) {
    BatchState& b = batches_[at(batch)];
    b.posted = true;
    b.post_time = lanes_[at(index)].clock;
    b.post_cause = lanes_[at(index)].cause;
    const int before = graph_.batches[at(batch)].before;
    if (before < 0 || batches_[at(before)].complete) begin(batch);
  }

  void begin(int batch) {
    BatchState& b = batches_[at(batch)];
    const int before = graph_.batches[at(batch)].before;
    b.begun = true;
    b.begin = b.post_time;
    b.begin_cause = b.post_cause;
    if (before >= 0 && batches_[at(before)].end > b.begin) {
      b.begin = batches_[at(before)].end;
      b.begin_cause = {Cause::Kind::batch, before};
    }
    b.ready = b.end = b.begin;
    b.ready_cause = b.begin_cause;
    const std::vector<int>& messages = graph_.batches[at(batch)].messages;
    b.pending = messages.size();
    for (int message : messages) {
      const Message& m = graph_.messages[at(message)];
      MessageState& state = messages_[at(message)];
      const bool first_half = m.sender == batch && !state.sender;
      (first_half ? state.sender : state.receiver) = true;
      meet(message, first_half, batch);
    }
    if (messages.empty()) put(b.end, Event::Kind::batch, batch);
  }

  /// Called when one end of a message has begun. The message leaves when both have, or, if it is eager, when its sender
  /// has.
  void meet(int message, bool sends, int batch) {
    const Message& m = graph_.messages[at(message)];
    const MessageState& state = messages_[at(message)];
    if (what_if_.no_turns || m.sender < 0 || m.receiver < 0) return half_done(batch, m, sends, batch);
    if (m.eager && sends) half_done(m.sender, m, true, m.sender);
    if (!state.sender || !state.receiver) return;
    const bool sender_later = batches_[at(m.sender)].begin > batches_[at(m.receiver)].begin;
    const int later = m.eager || sender_later ? m.sender : m.receiver;
    if (!m.eager) half_done(m.sender, m, true, later);
    half_done(m.receiver, m, false, later);
  }

  /// Called when a message of `batch` could leave, because the batch `source` has begun.
  void half_done(int batch, const Message& m, bool sends, int source) {
    BatchState& b = batches_[at(batch)];
    const BatchState& from = batches_[at(source)];
    const double price = what_if_.free_messages ? 0 : m.seconds - (sends ? m.latency : 0);
    const double end = from.begin + price;
    // If prices are unknown, the last to be ready decides.
    if (end > b.end || (end == b.end && from.begin > b.ready)) {
      b.end = end;
      b.ready = from.begin;
      b.ready_cause = from.begin_cause;
    }
    if (--b.pending == 0) put(std::max(now_, end_of(batch)), Event::Kind::batch, batch);
  }

  double end_of(int batch) {
    BatchState& b = batches_[at(batch)];
    if (!what_if_.free_messages) b.end += graph_.batches[at(batch)].delay;
    return b.end;
  }

  void complete(int batch) {
    BatchState& b = batches_[at(batch)];
    b.complete = true;
    if (b.next >= 0 && batches_[at(b.next)].posted) begin(b.next);
    if (b.waiter >= 0) resume(std::exchange(b.waiter, -1));
  }

  bool await_batch(int index, int batch) {
    BatchState& b = batches_[at(batch)];
    if (!b.complete) {
      b.waiter = index;
      return false;
    }
    LaneState& lane = lanes_[at(index)];
    if (b.end > lane.clock) lane.ahead = lane.main == index && lane.given == 0;
    reach(lane, b.end, {Cause::Kind::batch, batch});
    return true;
  }

  // The end ---------------------------------------------------------------------------------------------------------

  Replay finish() const {
    Replay result;
    std::size_t last = 0;
    result.waits.resize(at(graph_.ranks));
    int rank = -1;
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      if (lanes_[lane].next < graph_.lanes[lane].program.size())
        throw Error(Verdict::usage, "this trace cannot be replayed: what it waits for is not in it");
      if (lanes_[lane].clock > lanes_[last].clock) last = lane;
      if (graph_.lanes[lane].queue == 0) result.waits[at(++rank)] = lanes_[lane].waited;
    }
    if (lanes_.empty()) return result;
    result.seconds = lanes_[last].clock;
    Cause cause = lanes_[last].cause;
    while (cause.kind != Cause::Kind::beginning) {
      if (cause.kind == Cause::Kind::work) {
        const WorkState& w = works_[at(cause.index)];
        result.path.push_back({Segment::Kind::work, cause.index, w.begin, w.end});
        cause = w.before;
      } else {
        const BatchState& b = batches_[at(cause.index)];
        result.path.push_back({Segment::Kind::transfer, cause.index, b.ready, b.end});
        cause = b.ready_cause;
      }
    }
    std::reverse(result.path.begin(), result.path.end());
    return result;
  }

  const Graph& graph_;
  WhatIf what_if_;
  std::vector<LaneState> lanes_;
  std::vector<WorkState> works_;
  std::vector<BatchState> batches_;
  std::vector<MessageState> messages_;
  std::vector<ClosureState> closures_;
  std::vector<double> shares_;  // by work; empty: 1
  std::priority_queue<Event> events_;
  std::uint64_t issued_ = 0;
  double now_ = 0;
};

}  // namespace

Replay replay(const Graph& graph, const WhatIf& what_if) { return Player(graph, what_if).play(); }

}  // namespace lockstep::analysis
