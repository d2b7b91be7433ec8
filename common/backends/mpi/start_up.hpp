// Guard for MPI's start, which never returns if a process of the job is killed before the others know of it.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace lockstep::mpi {

/// Watches a call of MPI_Init during its lifetime. If a process of the job on this host has ended, or a minute has
/// passed (with more than 60 ranks, one second per rank), this process ends with exit code 1, and one of them says why.
class StartUpWatch {
 public:
  StartUpWatch();
  ~StartUpWatch();
  StartUpWatch(const StartUpWatch&) = delete;

 private:
  void watch();
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace lockstep::mpi
