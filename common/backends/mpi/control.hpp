// The runtime's control messages to itself (common/runtime/processes/watch.hpp) over MPI, on their own communicator.
#pragma once

#include <mpi.h>

#include <functional>
#include <list>
#include <string>

#include "common/backends/mpi/job.hpp"
#include "common/runtime/processes/watch.hpp"

namespace lockstep::mpi {

using processes::Row;

class Control final : public processes::Watch {
 public:
  Control(Job& job, MPI_Comm comm, std::function<Row()> describe_me);
  ~Control() override;

  /// Receives and sends pending messages; gate held, as for look_at_clock().
  void poll();
  /// True if none of our messages is in flight; gate held.
  bool quiet() const { return answered() && sent_.empty() && request_ == MPI_REQUEST_NULL; }
  /// Ends the whole job at once, with a message.
  [[noreturn]] static void end_job(const std::string& message);

 private:
  struct Sent {
    std::string bytes;
    MPI_Request request;
  };
  void post(int to, const processes::ControlMessage& message) override;
  bool counts_transfers() const override { return true; }
  bool has_arrived();

  MPI_Comm comm_;
  std::string incoming_;  // the message being received
  MPI_Request request_ = MPI_REQUEST_NULL;
  std::list<Sent> sent_;
};

}  // namespace lockstep::mpi
