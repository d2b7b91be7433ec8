// A queue of one rank: main, or a named thread that runs main's closures in order.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "common/backends/mpi/job.hpp"
#include "common/runtime/processes/closure_queue.hpp"

namespace lockstep::mpi {

class Queue final : public processes::ClosureQueue<double> {  // modelled seconds, while emulating
 public:
  using Job = mpi::Job;

  Queue(Job& job, int index, std::string name) : ClosureQueue(job, index, std::move(name)), job_(job) {}
  ~Queue() override { stop(); }

  double here() const override { return job_.emulate() ? clock : job_.now(); }
  void after(const double& then) override { clock = std::max(clock, then); }
  double time_of_closures() const override { return job_.now(); }

  double clock = 0;     // modelled seconds, while emulating
  double last_end = 0;  // when its last verb returned

 private:
  void thread_begins() override { ask_for_exact_sleeps(); }

  Job& job_;
};

}  // namespace lockstep::mpi
