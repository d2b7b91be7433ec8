// The runtime's control messages to itself (common/runtime/processes/watch.hpp), among the job's other messages.
#pragma once

#include "common/backends/nccl/job.hpp"
#include "common/runtime/processes/watch.hpp"

namespace lockstep::nccl {

using processes::Row;

class Watch final : public processes::Watch {
 public:
  Watch(Job& job, std::function<Row()> describe_me, std::function<void(const std::string&)> end_job)
      : processes::Watch(job, std::move(describe_me), std::move(end_job)),
        control_(job.control),
        label_{Label::Kind::control, job.run} {}

  /// Receives and sends pending messages, and checks the clock. Call it on one thread only.
  void look() {
    tell_failure();
    for (int from = 0; from < job_.ranks; ++from)
      while (const auto bytes = control_.take(from, label_)) receive(processes::ControlMessage::parse(*bytes));
    look_at_clock();
  }

 private:
  void post(int to, const processes::ControlMessage& message) override { control_.send(to, label_, message.bytes()); }

  Control& control_;
  const Label label_;
};

}  // namespace lockstep::nccl
