// NCCL communicators: one per group and queue, made by splitting and kept from run to run.
//
// They are non-blocking: a call may be "in progress" and is then polled until it has ended or the run has failed. So
// ncclCommAbort can end a rank that waits for one that never comes. They share no resources: communicators with shared
// buffers take turns on the GPU, in launch order, and aborting one aborts all. Our queues must progress independently,
// in any order.
#pragma once

#include <nccl.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/backends/nccl/control.hpp"
#include "common/backends/nccl/load.hpp"
#include "common/backends/nccl/status.hpp"
#include "common/devices/cuda/event.hpp"
#include "common/devices/cuda/stream.hpp"

namespace lockstep::nccl {

/// A communicator, with the stream that all its work runs on.
struct Communicator {
  std::vector<int> members;  // world ranks
  std::string queue;
  ncclComm_t handle = nullptr;  // null in a group of one, which needs no messages, and once aborted
  cuda::Stream stream;
};

class Communicators {
 public:
  explicit Communicators(Control& control, cuda::EventPool& events) : control_(control), events_(events) {}
  Communicators(const Communicators&) = delete;
  ~Communicators();

  /// Communicator of ranks 0 … ranks − 1, for queue main. Collective over them; `run` identifies this call.
  std::shared_ptr<Communicator> world(std::uint64_t run, int ranks, const Limit& limit);

  /// Collective over `parent`: for each `color` ≥ 0 makes a communicator of its `members` for `queue`, unless they have
  /// one already. Null for a negative colour. `label` identifies this call. No work of the parent may be in flight.
  std::shared_ptr<Communicator> split(Communicator& parent, Label label, int color, int key,
                                      const std::vector<int>& members, const std::string& queue, const Limit& limit);

  /// Records all communicators of a run so far, and its number of queues. If they ask too much of the GPU, rank 0
  /// prints a warning, once.
  void note(const std::set<const Communicator*>& of_run, int queues);
  /// Load of the run that asked for most.
  const Load& most() const { return most_; }

  /// After a failed run of ranks 0 … ranks − 1: aborts (ncclCommAbort) all communicators among them, used in that run
  /// or not, so that all members still agree on which exist; they are made again on demand. False if NCCL does not
  /// return within `seconds`.
  bool abort(int ranks, double seconds);

 private:
  using Name = std::pair<std::vector<int>, std::string>;
  /// Destination of the handle that NCCL is making. For a split, NCCL writes it at the end, when the run may have
  /// failed and nothing waits any more.
  using Handle = std::shared_ptr<ncclComm_t>;
  Handle new_handle();
  std::shared_ptr<Communicator> find(const Name& name);
  std::shared_ptr<Communicator> keep(Name name, const Handle& handle);
  void connect_all(Communicator& communicator, int rank, const Limit& limit);

  Control& control_;
  cuda::EventPool& events_;
  std::map<Name, std::shared_ptr<Communicator>> known_;
  std::vector<Handle> unfinished_;  // handles still being made
  Load most_;
  bool warned_ = false;
};

}  // namespace lockstep::nccl
