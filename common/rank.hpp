// Read this page first: everything a lab can do with its peers.
//
// A Rank is my identity in one group of peers, on one queue of work. It is a cheap handle: pass it by value. The same
// code runs in the simulator, on MPI processes and on GPUs; arithmetic is in arithmetic.hpp.
//
//   void hello_ring(Rank me, Slice mine, Slice theirs) {
//     int next = (me.rank() + 1) % me.size(), previous = (me.rank() + me.size() - 1) % me.size();
//     me.exchange({send(next, mine), receive(previous, theirs)});
//   }
#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/slice.hpp"

namespace lockstep {

class Backend;

/// One half of a message: sends all of `slice` to rank `peer`, or receives it from there. Ranks are those of the group
/// that the batch is started on. There are no tags: between two ranks of one group, on one queue, messages match in the
/// order posted.
struct Transfer {
  enum class Kind : std::uint8_t { send, receive };
  Kind kind;
  int peer;
  Slice slice;
};
inline Transfer send(int peer, Slice slice) { return {Transfer::Kind::send, peer, std::move(slice)}; }
inline Transfer receive(int peer, Slice slice) { return {Transfer::Kind::receive, peer, std::move(slice)}; }

/// Work that was started and may not have finished. Copyable; waiting twice, or for an empty ticket, does nothing.
struct Ticket {
  enum class Kind : std::uint8_t { none, batch, closure };
  Kind kind = Kind::none;
  int group = 0;
  int queue = 0;
  std::uint64_t number = 0;  // counts from 1 within (group, queue), or within the queue's closures
};

/// Names the work done during its lifetime; made by Rank::region.
class Scope {
 public:
  Scope() = default;
  Scope(Scope&& other) noexcept : backend_(std::exchange(other.backend_, nullptr)), queue_(other.queue_) {}
  Scope& operator=(Scope&&) = delete;
  ~Scope();

 private:
  friend class Rank;
  Scope(Backend* backend, int queue) : backend_(backend), queue_(queue) {}
  Backend* backend_ = nullptr;
  int queue_ = 0;
};

/// Passed to `region` to name a phase of the program rather than a collective.
inline constexpr std::size_t kPhase = static_cast<std::size_t>(-1);

class Rank {
 public:
  int rank() const { return rank_; }  ///< this rank's index in the group, 0 … size() − 1
  int size() const { return size_; }  ///< number of ranks in this group

  /// Starts all transfers together and returns at once; the queue continues. The slices are in use until `wait`.
  /// Batches of one (group, queue) begin and complete in the order started, one at a time.
  Ticket start(std::span<const Transfer> batch, Location where = Location::current());
  Ticket start(std::initializer_list<Transfer> batch, Location where = Location::current()) {
    return start(std::span(batch.begin(), batch.size()), where);
  }

  /// Makes later work of this queue run after `ticket`'s work, and after everything started before that on the same
  /// (group, queue), or run before it on the same queue. This orders work; it does not promise that the host is idle.
  void wait(Ticket ticket, Location where = Location::current());

  /// wait(start(batch)): all that a beginner needs.
  void exchange(std::initializer_list<Transfer> batch, Location where = Location::current()) {
    wait(start(batch, where), where);
  }
  void exchange(std::span<const Transfer> batch, Location where = Location::current()) {
    wait(start(batch, where), where);
  }

  /// Makes sub-groups of the ranks that pass the same colour (≥ 0), ordered by (key, rank). A rank that passes a
  /// negative colour joins none and gets a Rank of size 0. Collective over this group, at set-up: the k-th set-up call
  /// must be the same on every member.
  Rank split(int color, int key, Location where = Location::current()) const;

  /// The same peers on another ordered queue of this rank's device; returns the existing queue if one has this name.
  /// Collective over this group, at set-up.
  Rank stream(std::string_view name, Location where = Location::current()) const;

  /// Runs f(queue) on `queue`, after the work that this queue has finished or waited for. Main only. f captures by
  /// value; inside it, only Ranks on that queue (of any group) may be used. Memory that f allocates is scratch: release
  /// it before f ends.
  Ticket run(Rank queue, std::function<void(Rank)> f, Location where = Location::current());

  /// Memory for `count` elements, contents undefined; counted under `category` until the last Slice of it is gone.
  Slice allocate(std::size_t count, DType dtype, Category category, Location where = Location::current());

  /// Names a collective that carries `bytes` (of the whole array) or, with kPhase, a phase of the program, for ledgers,
  /// traces and explanations. A message between two different collectives is a MISMATCH. `name` must be a string
  /// literal for a collective; for a phase, it must outlive the Scope.
  [[nodiscard]] Scope region(const char* name, std::size_t bytes = kPhase, Location where = Location::current());

  /// Seconds since the run began on this queue, in virtual or wall-clock time; on a GPU, after the host has waited for
  /// the queue's work so far. For logs and benchmarks; lab results never depend on it.
  double now() const;
  int world_rank() const;  ///< rank in the whole run, for messages to people

  Rank() = default;
  int group() const { return group_; }
  int queue() const { return queue_; }

#include "common/runtime_access.hpp"  // private while an answer is compiled
  /// For the runtime only.
  Rank(Backend& backend, int group, int queue, int rank, int size)
      : backend_(&backend), group_(group), queue_(queue), rank_(rank), size_(size) {}
  Backend& backend() const { return *backend_; }

 private:
  Backend* backend_ = nullptr;
  int group_ = 0;
  int queue_ = 0;
  int rank_ = 0;
  int size_ = 0;
};

// Between lab memory and the host ------------------------------------------------------------------------------------

/// Copies tokens or initial values from host to device: values.size() == slice.size(). f32 values are rounded to the
/// slice's dtype (nearest even); integers go to i32 slices only.
void upload(Rank me, Slice slice, std::span<const float> values, Location where = Location::current());
void upload(Rank me, Slice slice, std::span<const std::int32_t> values, Location where = Location::current());

/// Returns one f32 scalar (slice.size() == 1) to the host, after this queue's work so far: a loss for the log, an
/// overflow flag. Recorded as a synchronisation. A phantom run returns `if_phantom`.
float read(Rank me, Slice scalar, float if_phantom, Location where = Location::current());

/// Returns the whole slice, for tests. i32 and i8 are converted to float. A phantom run returns zeros.
std::vector<float> to_host(Rank me, Slice slice, Location where = Location::current());

/// Prints rank, step and the first values of `slice` to standard error, outside ledgers and virtual time.
void show(Rank me, Slice slice, std::string_view label, Location where = Location::current());

}  // namespace lockstep
