// An endpoint: the ordered batches of one (group, queue), on a communicator and a stream of their own.
//
// Batches begin and complete in the order started, one at a time, because the stream keeps it. While checks are on,
// each message is announced to its receiver by a control message, and a batch is given to NCCL once all it receives has
// been announced and fits: NCCL itself would hang, or write where it should not. Everything here is called with the
// job's gate held, and nothing here waits with it: what NCCL has in progress is asked about again later.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/backends/nccl/communicators.hpp"
#include "common/backends/nccl/queue.hpp"
#include "common/runtime/processes/envelope.hpp"

namespace lockstep::nccl {

struct Batch : processes::BatchCore {
  std::vector<bool> announced;  // by transfer: a receive whose message has come, and fits
  cuda::Event ready;            // what its queue did before
  cuda::Event done;             // empty until NCCL has it
};

class Endpoint final : public processes::EndpointCore<Batch> {
 public:
  using Queue = nccl::Queue;

  Endpoint(Job& job, std::shared_ptr<Communicator> communicator, int group, int queue);

  /// Adds a batch, after `issued`. Returns its number. While checks are off, when NCCL has it, so that batches reach
  /// NCCL in the program's order; the gate is open meanwhile.
  std::uint64_t start(std::span<const Transfer> transfers, Location where, const char* region,
                      const cuda::Event& issued);
  /// Gives NCCL what may go.
  void advance();
  bool ready(std::uint64_t number) const { return launched_ >= number; }  ///< NCCL has it
  /// Later work of `queue_stream` runs after batch `number`, which NCCL has; forgets batches up to it, and with them
  /// their hold on memory.
  void wait(std::uint64_t number, const cuda::Stream& queue_stream);
  /// The GPU has done all that NCCL was given, and nothing else waits to be.
  bool idle();
  /// Counts batches that the GPU has done.
  std::uint64_t completed();
  /// Throws Error(fail) where NCCL has found an error since.
  void look_for_errors();
  /// Main itself calls NCCL on the communicator, which takes calls from one thread at a time.
  void set_reserved(bool reserved) { reserved_ = reserved; }
  /// Gives up what it holds; nothing of it is on its way any more.
  void drop() {
    launching_.reset();
    batches_.clear();
  }

  processes::Outstanding outstanding();
  /// Empty while checks are off, too.
  std::string take_unread(int member);

  const std::shared_ptr<Communicator>& communicator() const { return communicator_; }

 private:
  /// What is left of a batch that NCCL has: enough to explain a hang when the slices are gone.
  struct Launched {
    struct Part {
      Transfer::Kind kind;
      int peer;
      std::size_t bytes;
    };
    std::uint64_t number;
    std::vector<Part> parts;
    const char* region;
    Location where;
    cuda::Event ready, done;
  };
  void announce(const Batch& batch);
  bool all_announced(Batch& batch);
  std::optional<processes::Envelope> take_envelope(int member);
  void begin_launch(const Batch& batch);
  bool hand_over(const Batch& batch);
  bool nccl_has_it() const;
  void end_launch(Batch& batch);

  Job& job_;
  std::shared_ptr<Communicator> communicator_;
  std::deque<Launched> on_gpu_;  // not known to be done
  std::uint64_t launched_ = 0;
  std::uint64_t completed_ = 0;
  /// The batch after launched_, once NCCL has been called for it.
  struct Launching {
    cuda::Event begin;
    std::chrono::steady_clock::time_point since;
    bool calls = false;  // false: no call was needed
  };
  std::optional<Launching> launching_;
  bool reserved_ = false;
};

/// While main calls NCCL on an endpoint's communicator, the watching thread leaves it alone.
class Reservation {
 public:
  Reservation(Job& job, Endpoint& endpoint) : job_(job), endpoint_(endpoint) { set(true); }
  Reservation(const Reservation&) = delete;
  ~Reservation() { set(false); }

 private:
  void set(bool reserved) {
    std::lock_guard gate(job_.gate);
    endpoint_.set_reserved(reserved);
  }
  Job& job_;
  Endpoint& endpoint_;
};

}  // namespace lockstep::nccl
