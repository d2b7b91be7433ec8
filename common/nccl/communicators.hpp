// NCCL's communicators: one for each group and queue, made by splitting, kept from run to run.
//
// None of them blocks: every call may be "in progress", and is asked about until it is not, or until the run has
// failed. So a rank that waits for one that never comes can be ended by ncclCommAbort.
#pragma once

#include <nccl.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/cuda/event.hpp"
#include "common/cuda/stream.hpp"
#include "common/nccl/mail.hpp"

namespace lockstep::nccl {

/// With the stream that everything on it runs on.
struct Communicator {
  std::vector<int> members;  // world ranks
  std::string queue;
  ncclComm_t handle = nullptr;  // null in a group of one, which has nobody to talk to, and once aborted
  cuda::Stream stream;
};

/// Waits until the communicator's last call is no longer in progress. Throws Unwind once stop() holds, Error(fail) with
/// NCCL's words.
void settle(ncclComm_t handle, const char* call, const std::function<bool()>& stop);

class Communicators {
 public:
  explicit Communicators(Mail& mail, cuda::EventPool& events) : mail_(mail), events_(events) {}
  Communicators(const Communicators&) = delete;
  ~Communicators();

  /// Of ranks 0 … ranks − 1, for queue main. Collective over them; `run` names this call alone.
  std::shared_ptr<Communicator> world(std::uint64_t run, int ranks, const std::function<bool()>& stop);

  /// Collective over `parent`: of each `color` ≥ 0 a communicator of its `members` for `queue`, where one of them has
  /// none yet. Null for a negative colour. `label` names this call alone. Nothing of the parent is on its way.
  std::shared_ptr<Communicator> split(Communicator& parent, Label label, int color, int key,
                                      const std::vector<int>& members, const std::string& queue,
                                      const std::function<bool()>& stop);

  /// After a failure of a run of ranks 0 … ranks − 1: ncclCommAbort of all among them, used in that run or not, so that
  /// all members still know alike what there is; they are made anew when asked for. All at once, because work of one
  /// may wait for work of another. False where NCCL does not come back within `seconds`.
  bool abort(int ranks, double seconds);

 private:
  using Name = std::pair<std::vector<int>, std::string>;
  std::shared_ptr<Communicator> find(const Name& name);
  std::shared_ptr<Communicator> keep(Name name, ncclComm_t handle);
  void connect_all(Communicator& communicator, int rank, const std::function<bool()>& stop);

  Mail& mail_;
  cuda::EventPool& events_;
  std::map<Name, std::shared_ptr<Communicator>> known_;
  std::vector<ncclComm_t> unfinished_;  // not yet known: being made
};

}  // namespace lockstep::nccl
