// A run whose ranks share a process: its fibers, groups and queue names, how it fails and what it returns. The backend
// decides which fiber runs next.
//
// World derives from WorldBase<Types> (see rank_base.hpp for Types). check_backend lists what it must offer; the
// compiler checks it.
#pragma once

#include <algorithm>
#include <concepts>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/runtime/fibers/errors.hpp"
#include "common/runtime/fibers/groups.hpp"
#include "common/runtime/fibers/queue.hpp"
#include "common/runtime/fibers/survey.hpp"
#include "common/runtime/private_data.hpp"
#include "common/runtime/run.hpp"

namespace lockstep {

template <class Types>
class WorldBase {
 public:
  using BackendRank = typename Types::BackendRank;
  using Queue = typename Types::Queue;

  WorldBase(const WorldBase&) = delete;
  Outcome run();
  /// After the run: true if slices outlive it, since they will return their memory to their rank.
  bool must_stay() const { return has_outliving_slices(); }
  /// Frees stacks or threads after the run.
  void drop_fibers() {
    running_call = nullptr;
    each_queue([](Queue& queue) { queue.fiber.reset(); });
    fibers_.reset();
  }

  const RunOptions& options() const { return options_; }
  Queue* running() const { return running_; }
  bool failing() const { return failing_; }
  Groups& groups() { return groups_; }
  Arena& arena() { return arena_; }
  BackendRank& rank(int index) { return *ranks_[index]; }
  int queue_id(std::string_view name);
  const std::string& queue_name(int index) const { return queue_names_[index]; }
  void join_new_groups();  ///< after a set-up call, which may have made groups

  void start_fiber(Queue& queue, std::function<void()> body) {
    if (!fibers_) fibers_ = make_fibers(self().stack_bytes(), options_.ranks, arena_);
    queue.fiber =
        fibers_->make(queue.owner->world_rank(), [this, &queue, body = std::move(body)] { body_of(queue, body); });
    self().started(queue);
  }
  /// Suspends the running fiber until it is woken.
  void block(Queue& queue, const Blocked& why) {
    queue.blocked = why;
    queue.fiber->suspend();
    queue.blocked.on = Blocked::On::nothing;
    if (failing_) throw Unwind{};
  }
  /// True while an exception unwinds this fiber; throws Unwind if the run has failed.
  bool stopped() const {
    // A destructor's verb during an exception does nothing: it could wait forever, or throw a second one.
    if (running_ ? running_->fiber->unwinding() : std::uncaught_exceptions() > 0) return true;
    if (failing_) throw Unwind{};
    return false;
  }
  void record_failure(const Queue& queue);  ///< from the exception being handled

 protected:
  WorldBase(const RunOptions& options, const Program& program)
      : options_(options),
        arena_(static_cast<std::size_t>(options.ranks) * kRankBytes),
        program_(program),
        groups_(options.ranks),
        values_(options.ranks) {}
  ~WorldBase() { running_call = nullptr; }

  /// Makes the ranks, which need an otherwise complete world: called at the end of its constructor.
  void make_ranks() {
    for (int r = 0; r < options_.ranks; ++r) ranks_.push_back(arena_.make<BackendRank>(self(), r));
    join_new_groups();
    for (auto& rank : ranks_) rank->add_queues_up_to(0);
  }
  bool has_outliving_slices() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](auto& rank) { return rank->live_blocks() > 0; });
  }
  /// Records a failure that no particular rank caused.
  void fail(Verdict verdict, std::string message) {
    if (!failing_) failure_ = {verdict, std::move(message)};
    failing_ = true;
  }
  template <class F>
  void each_queue(F f) {
    for (auto& rank : ranks_)
      for (auto& queue : rank->queues()) f(*queue);
  }
  void resume(Queue& queue) {
    running_ = &queue;
    queue.last_call.rank = queue.owner->world_rank();
    private_data_.enter(queue.last_call.rank);
    running_call = &queue.last_call;
    queue.fiber->resume();
    running_ = nullptr;
  }

  static constexpr std::size_t kRankBytes = 2048;  // approximate use of the arena

  RunOptions options_;
  Arena arena_;  // declared before its objects
  Queue* running_ = nullptr;
  bool failing_ = false;
  std::uint64_t messages_ = 0;
  const Program& program_;
  Groups groups_;
  std::unique_ptr<Fibers> fibers_;  // declared before the owners of fibers
  std::vector<InArena<BackendRank>> ranks_;

 private:
  static constexpr void check_backend();
  auto& self() { return static_cast<typename Types::World&>(*this); }
  void body_of(Queue& queue, const std::function<void()>& body);
  void judge_end();
  void explain(const std::vector<StuckQueue>& stuck);
  void unwind_all();
  void fill(Outcome& outcome);

  int joined_groups_ = 0;
  std::vector<std::string> queue_names_{"main"};
  std::vector<Values> values_;
  Failure failure_;
  std::vector<TraceStuck> stuck_;
  PrivateData private_data_;
};

/// Requirements on a backend's world, checked once it is complete.
template <class Types>
constexpr void WorldBase<Types>::check_backend() {
  using World = typename Types::World;
  static_assert(std::derived_from<World, WorldBase>);
  static_assert(
      requires(World & world, Queue & queue, const Queue& stuck, typename Types::Closure& closure) {
        world.loop();                   // runs fibers until all have ended, none can run, or one has failed
        world.started(queue);           // its fiber exists now and is to be run in its turn
        world.wake_from_set_up(queue);  // a blocked queue resumes
        world.wake_for_work(queue);
        world.wake_after(queue, closure);
        { world.stack_bytes() } -> std::convertible_to<std::size_t>;  // of each fiber
        { world.stuck_batch(stuck) } -> std::same_as<StuckBatch>;     // for explanations
        { world.unmatched_halves() } -> std::same_as<std::vector<UnmatchedHalf>>;
        world.drain();                // after the loop: completes work begun elsewhere
        world.release_left_memory();  // memory that a failed run has left in batches
      },
      "a backend's world lacks one of these");
}

template <class Types>
int WorldBase<Types>::queue_id(std::string_view name) {
  auto known = std::find(queue_names_.begin(), queue_names_.end(), name);
  if (known == queue_names_.end()) known = queue_names_.insert(known, std::string(name));
  return static_cast<int>(known - queue_names_.begin());
}

template <class Types>
void WorldBase<Types>::join_new_groups() {
  for (; joined_groups_ < groups_.count(); ++joined_groups_) {
    const std::vector<int>& members = groups_.members(joined_groups_);
    const std::size_t present = groups_.is_symmetric(joined_groups_) ? 1 : members.size();
    for (std::size_t i = 0; i < present; ++i) ranks_[members[i]]->join_group(joined_groups_, static_cast<int>(i));
  }
}

template <class Types>
Outcome WorldBase<Types>::run() {
  check_backend();
  for (auto& rank : ranks_)
    start_fiber(rank->queue(0), [this, &rank] { rank->play(program_, values_[rank->world_rank()]); });
  self().loop();
  if (!failing_) judge_end();
  self().drain();
  unwind_all();
  private_data_.leave();
  each_queue([](Queue& queue) { queue.closures.list.clear(); });
  self().release_left_memory();
  drop_fibers();  // the return value may be large
  Outcome outcome;
  fill(outcome);
  return outcome;
}

template <class Types>
void WorldBase<Types>::body_of(Queue& queue, const std::function<void()>& body) {
  try {
    body();
  } catch (const Unwind&) {
  } catch (...) {
    record_failure(queue);
  }
  queue.ended = true;
}

template <class Types>
void WorldBase<Types>::record_failure(const Queue& queue) {
  if (failing_) return;  // explain only the first failure
  failing_ = true;
  const auto* closure = queue.closures.current;
  failure_ = current_failure({.rank = queue.owner->world_rank(), .where = queue.last_call.where},
                             queue_names_[queue.index], closure ? &closure->where : nullptr);
}

template <class Types>
void WorldBase<Types>::judge_end() {
  const bool all_ended = std::all_of(ranks_.begin(), ranks_.end(), [](auto& rank) { return rank->queue(0).ended; });
  if (!all_ended) return explain(Survey(self()).queues());
  std::vector<UnmatchedHalf> unread = self().unmatched_halves();
  std::erase_if(unread, [](const UnmatchedHalf& half) { return half.kind == Transfer::Kind::receive; });
  if (!unread.empty()) failure_ = {Verdict::unread, unread_messages(unread)};
}

template <class Types>
void WorldBase<Types>::explain(const std::vector<StuckQueue>& stuck) {
  failure_ = {Verdict::deadlock, explain_deadlock(stuck)};
  if (options_.trace) stuck_ = trace_of(stuck);
}

template <class Types>
void WorldBase<Types>::unwind_all() {
  failing_ = true;
  each_queue([this](Queue& queue) {
    if (queue.fiber && queue.fiber->started() && !queue.ended) resume(queue);
  });
}

template <class Types>
void WorldBase<Types>::fill(Outcome& outcome) {
  outcome.messages = messages_;
  outcome.trace.queues = queue_names_;
  for (auto& rank : ranks_) {
    outcome.ledgers.push_back(rank->ledger());
    rank->ledger_taken();
    outcome.seconds = std::max(outcome.seconds, outcome.ledgers.back().seconds);
    append(outcome.trace, rank->recorder().take_trace());
    if (failure_.verdict == Verdict::pass && rank->live_blocks() > 0)
      failure_ = outliving_slices(rank->world_rank(), rank->live_blocks());
  }
  outcome.verdict = failure_.verdict;
  outcome.message = failure_.message;
  outcome.failed_rank = failure_.rank;
  outcome.values = std::move(values_);
  if (!options_.trace) return;
  outcome.trace.stuck = std::move(stuck_);
  note_end(outcome);
}

/// Keeps a world that must stay forever, reachable from here, so that leak checkers see that it is intended.
template <class World>
void drop_or_keep(std::unique_ptr<World> world) {
  if (!world->must_stay()) return;
  world->drop_fibers();
  static auto* const kept = new std::vector<std::unique_ptr<World>>;
  kept->push_back(std::move(world));
}

}  // namespace lockstep
