// Checks every NCCL call: a status that is neither success nor "in progress" becomes an Error that names the call, the
// computer and the GPU. The failure report adds the rank.
#pragma once

#include <nccl.h>

#include <functional>
#include <string>

#include "common/error.hpp"
#include "common/runtime/errors.hpp"

namespace lockstep::nccl {

/// Throws Error(fail) "ncclSend: invalid usage (host NAME, GPU 0, at file:line)", followed by NCCL's last error
/// message, if any.
void check(ncclResult_t status, const char* call, Location where = Location::current());

/// Limit of the time that an NCCL call may be in progress.
struct Limit {
  std::function<bool()> stop;  // true once the run has failed; only threads that may wait call it
  double seconds = 0;
};
/// Waits until the communicator's last call is no longer in progress. Throws Unwind once limit.stop() holds,
/// Error(timeout) after limit.seconds, Error(fail) with NCCL's message.
void wait_until_ready(ncclComm_t handle, const char* call, const Limit& limit);

/// True if it is no longer in progress; throws like wait_until_ready if it has failed, or began `seconds` > limit ago.
bool is_ready(ncclComm_t handle, const char* call, double seconds, double limit_seconds);

/// ncclGroupStart … ncclGroupEnd. Also ends the group if a call in between fails: a group belongs to the thread, not to
/// the communicator, and would swallow the thread's next calls.
class GroupOfCalls {
 public:
  GroupOfCalls() { check(ncclGroupStart(), "ncclGroupStart"); }
  GroupOfCalls(const GroupOfCalls&) = delete;
  ~GroupOfCalls() {
    if (!ended_) (void)ncclGroupEnd();
  }
  void end() {
    ended_ = true;
    check(ncclGroupEnd(), "ncclGroupEnd");
  }

 private:
  bool ended_ = false;
};

/// Version of NCCL that this program found, in NCCL's numbering: 22809 is 2.28.9.
int library_version();
std::string version_text(int version);

}  // namespace lockstep::nccl
