// Messages of the runtime to itself: "I have failed", "nothing moves here", "what are you all doing?".
//
// When nothing has moved in a process for options.patience_seconds, it tells rank 0, which asks all ranks what they
// are doing. If every rank waits or has finished, nobody can go on: DEADLOCK. If a rank has been busy with one thing
// since it was last asked: TIMEOUT. Else all is well, and everyone's patience begins anew.
#pragma once

#include <mpi.h>

#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "common/mpi/job.hpp"

namespace lockstep::mpi {

using processes::Row;

class Control {
 public:
  Control(Job& job, MPI_Comm comm, std::function<Row()> describe_me);
  ~Control();
  Control(const Control&) = delete;

  /// Takes in and sends what there is; gate held.
  void poll();
  /// Nothing of ours is on its way; gate held.
  bool quiet() const;
  /// Looks at the clock: has nothing moved for too long? Gate held.
  void watch();
  /// Ends the whole job at once, with a message.
  [[noreturn]] static void end_job(const std::string& message);

 private:
  struct Letter;
  struct Sent;
  void send(int to, const Letter& letter);
  void send_all(const Letter& letter);
  void receive(const Letter& letter);
  void tell_failure();
  void collect();
  void answer();
  void judge();

  Job& job_;
  MPI_Comm comm_;
  std::function<Row()> describe_me_;
  std::unique_ptr<Letter> incoming_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  std::list<Sent> sent_;
  bool told_ = false;
  std::uint64_t calm_since_ns_;
  std::uint64_t failed_since_ns_ = 0;
  // Rank 0 only.
  bool collecting_ = false;
  std::uint64_t asked_ns_ = 0;
  std::vector<Row> rows_;
  std::vector<std::uint64_t> last_activity_;
};

}  // namespace lockstep::mpi
