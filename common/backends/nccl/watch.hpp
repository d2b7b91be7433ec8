// The control messages of the runtime to itself (common/runtime/processes/watch.hpp) among the job's other control.
#pragma once

#include "common/backends/nccl/job.hpp"
#include "common/runtime/processes/watch.hpp"

namespace lockstep::nccl {

using processes::Row;

class Watch final : public processes::Watch<Job> {
 public:
  using processes::Watch<Job>::Watch;
  /// Takes in and sends what there is, and looks at the clock. On one thread.
  void look() {
    tell_failure();
    for (int from = 0; from < job_.ranks; ++from)
      while (const auto bytes = job_.control.take(from, label())) receive(processes::ControlMessage::parse(*bytes));
    look_at_clock();
  }

 private:
  Label label() const { return {Label::Kind::control, job_.run}; }
  void post(int to, const processes::ControlMessage& message) override {
    job_.control.send(to, label(), message.bytes());
  }
};

}  // namespace lockstep::nccl
