// NCCL's communicators: one for each group and queue, made by splitting, kept from run to run.
//
// None of them blocks: every call may be "in progress", and is asked about until it is not, or until the run has
// failed. So a rank that waits for one that never comes can be ended by ncclCommAbort. None shares anything with
// another: a family of communicators with shared buffers takes turns on the GPU, in the order of launches, and one that
// is aborted ends all; but our queues go on independently, in whatever order.
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

/// With the stream that everything on it runs on.
struct Communicator {
  std::vector<int> members;  // world ranks
  std::string queue;
  ncclComm_t handle = nullptr;  // null in a group of one, which has nobody to talk to, and once aborted
  cuda::Stream stream;
};

class Communicators {
 public:
  explicit Communicators(Control& control, cuda::EventPool& events) : control_(control), events_(events) {}
  Communicators(const Communicators&) = delete;
  ~Communicators();

  /// Of ranks 0 … ranks − 1, for queue main. Collective over them; `run` names this call alone.
  std::shared_ptr<Communicator> world(std::uint64_t run, int ranks, const Limit& limit);

  /// Collective over `parent`: of each `color` ≥ 0 a communicator of its `members` for `queue`, where one of them has
  /// none yet. Null for a negative colour. `label` names this call alone. Nothing of the parent is on its way.
  std::shared_ptr<Communicator> split(Communicator& parent, Label label, int color, int key,
                                      const std::vector<int>& members, const std::string& queue, const Limit& limit);

  /// These are all of a run so far, which has so many queues: where they ask too much of the GPU, rank 0 says so, once.
  void note(const std::set<const Communicator*>& of_run, int queues);
  /// Of the run that asked for most.
  const Load& most() const { return most_; }

  /// After a failure of a run of ranks 0 … ranks − 1: ncclCommAbort of all among them, used in that run or not, so that
  /// all members still know alike what there is; they are made anew when asked for. False where NCCL does not come back
  /// within `seconds`.
  bool abort(int ranks, double seconds);

 private:
  using Name = std::pair<std::vector<int>, std::string>;
  /// Where NCCL writes the handle of one that is being made: in the case of a split at its end, when the run may have
  /// failed and nobody waits any more.
  using Place = std::shared_ptr<ncclComm_t>;
  Place new_place();
  std::shared_ptr<Communicator> find(const Name& name);
  std::shared_ptr<Communicator> keep(Name name, const Place& place);
  void connect_all(Communicator& communicator, int rank, const Limit& limit);

  Control& control_;
  cuda::EventPool& events_;
  std::map<Name, std::shared_ptr<Communicator>> known_;
  std::vector<Place> unfinished_;  // not yet known: being made
  Load most_;
  bool warned_ = false;
};

}  // namespace lockstep::nccl
