// Exercise 21.14: when a process dies. From which step the job resumes, a rendezvous of all its ranks, or an error that
// names the missing ones, and ending the job when one of its processes dies.
//
// torchrun: PyTorch's documentation, "torchrun (Elastic Launch)"; torch.distributed's TCPStore.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "labs/week21_data_parallel/launch.hpp"  // Place, and given functions: refuse, digits

namespace lockstep::week21 {

// a. The newest complete checkpoint -----------------------------------------------------------------------------------

/// The last step with a complete checkpoint, −1 without one. `files` are the files in the checkpoint folder, in any
/// order: a checkpoint is complete once "step-N/manifest" exists, N in digits, with or without leading zeros. Ignore
/// other files.
int newest_complete(const std::vector<std::string>& files);

// b. Rendezvous -------------------------------------------------------------------------------------------------------

/// Seconds, on a clock that a test may fake.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual double now() = 0;
  virtual void sleep(double seconds) = 0;
};

/// The store that all ranks can reach at the meeting point: as much of torch.distributed's TCPStore as this exercise
/// needs. It survives a restart, with everything in it.
class Store : public Clock {
 public:
  virtual void set(const std::string& key, const std::string& value) = 0;
  virtual std::optional<std::string> get(const std::string& key) = 0;  ///< nothing: not set
};

/// Given: "start-2/rank-5", the key of rank 5 after two restarts.
std::string key_of(int restarts, int rank);

/// Sets this rank's own key to `newest`, the step that newest_complete found; then waits until all ranks of this start
/// have set theirs, checking at least once a second. Returns the step to resume from: the smallest of all, so that all
/// ranks resume from the same. Where some found a checkpoint and others none (−1), all refuse: they do not see the same
/// folder. Throws Error(Verdict::timeout) with a message that names each missing rank's number, once `timeout` seconds
/// have passed; a rank that arrived within them is not missing.
int come_together(Store& store, const Place& place, int newest, double timeout);

// c. One process dies -------------------------------------------------------------------------------------------------

/// The processes that a launcher has started on this host.
class Processes : public Clock {
 public:
  virtual int count() const = 0;
  virtual std::optional<int> exit_code(int process) = 0;  ///< nothing: still running; 128 + n: killed by signal n
  virtual void terminate(int process) = 0;                ///< SIGTERM: it may save and then exit
  virtual void kill(int process) = 0;                     ///< SIGKILL
};

/// Waits until all have exited, checking at least once a second. As soon as one is seen to have failed (a code other
/// than 0), each one still running is terminated, once; `grace` seconds later each one still running is killed, once. A
/// process that has exited gets no signal: its number may belong to another one by then. Returns the code of the first
/// that failed (of several seen at once, of the lowest), never that of a process that supervise terminated; 0 where
/// none failed.
int supervise(Processes& processes, double grace);

}  // namespace lockstep::week21
