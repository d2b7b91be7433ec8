// An endpoint: the ordered batches of one (group, queue), with their own communicator and stream.
//
// Batches begin and complete in the order started, one at a time, because the stream keeps that order. While checks are
// on, a control message announces each message to its receiver, and a batch is given to NCCL once everything it
// receives has been announced and matches; otherwise NCCL would hang, or write to wrong memory. The job's gate must be
// held for every call, and no call waits while holding it: NCCL calls in progress are polled later.
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

struct TransferBatch : processes::TransferBatchCore {
  std::vector<bool> announced;  // by transfer: true for a receive whose message is announced and matches
  cuda::Event ready;            // earlier work of its queue
  cuda::Event done;             // empty until NCCL has it
};

class Endpoint final : public processes::EndpointCore<TransferBatch> {
 public:
  using Queue = nccl::Queue;

  Endpoint(Job& job, std::shared_ptr<Communicator> communicator, int group, int queue);

  /// Adds a batch that begins after `issued`; returns its number. While checks are off, returns only when NCCL has the
  /// batch, so that batches reach NCCL in the program's order; the gate is open meanwhile.
  std::uint64_t start(std::span<const Transfer> transfers, Location where, const char* region,
                      const cuda::Event& issued);
  /// Gives NCCL every batch that may run.
  void advance();
  bool ready(std::uint64_t number) const { return launched_ >= number; }  ///< NCCL has it
  /// Orders later work of `queue_stream` after batch `number`, which NCCL must have. Forgets batches up to it, which
  /// releases the memory they hold.
  void wait(std::uint64_t number, const cuda::Stream& queue_stream);
  /// True if the GPU has done everything given to NCCL, and no batch is left to give.
  bool idle();
  /// Number of batches that the GPU has completed.
  std::uint64_t completed();
  /// Throws Error(fail) if NCCL has reported an error since the last call.
  void look_for_errors();
  /// Reserves the communicator for NCCL calls by main; it accepts calls from one thread at a time.
  void set_reserved(bool reserved) { reserved_ = reserved; }
  /// Releases its resources; none of its work may be in flight.
  void drop() {
    launching_.reset();
    batches_.clear();
  }

  processes::Outstanding outstanding();
  /// Takes one unread message. Also empty while checks are off.
  std::string take_unread(int member);

  const std::shared_ptr<Communicator>& communicator() const { return communicator_; }

 private:
  /// Rest of a batch that NCCL has: enough to explain a hang when the slices are gone.
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
  void announce(const TransferBatch& batch);
  bool all_announced(TransferBatch& batch);
  std::optional<processes::Envelope> take_envelope(int member);
  void begin_launch(const TransferBatch& batch);
  bool hand_over(const TransferBatch& batch);
  bool nccl_has_it() const;
  void end_launch(TransferBatch& batch);

  Job& job_;
  std::shared_ptr<Communicator> communicator_;
  std::deque<Launched> on_gpu_;  // not known to be complete
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

/// Keeps the watching thread away from an endpoint's communicator while main calls NCCL on it.
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
