// A endpoint: the ordered batches of one (group, queue), on a communicator and a stream of their own.
//
// Batches begin and complete in the order started, one at a time, because the stream keeps it. While checks are on,
// each message is announced to its receiver by a message, and a batch is given to NCCL once all it receives has been
// announced and fits: NCCL itself would hang, or write where it should not. Everything here is called with the job's
// gate held.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "common/backends/nccl/communicators.hpp"
#include "common/backends/nccl/job.hpp"

namespace lockstep::nccl {

struct Batch {
  std::uint64_t number = 0;
  Location where{};
  std::vector<Transfer> transfers;  // hold their memory until the queue waits
  std::vector<bool> announced;      // by transfer: a receive whose message has come, and fits
  const char* region = nullptr;     // the collective it is part of
  cuda::Event ready;                // what its queue did before
  cuda::Event done;                 // empty until NCCL has it
};

class Endpoint {
 public:
  Endpoint(Job& job, std::shared_ptr<Communicator> communicator, int group, int queue);
  Endpoint(const Endpoint&) = delete;

  /// Adds a batch, after what `queue_stream` has been given so far. Returns its number.
  std::uint64_t start(std::span<const Transfer> transfers, Location where, const char* region,
                      cudaStream_t queue_stream);
  /// Gives NCCL what may go.
  void advance();
  std::uint64_t started() const { return started_; }
  std::uint64_t launched() const { return launched_; }  ///< batches that NCCL has
  std::uint64_t waited() const { return waited_; }
  /// Later work of `queue_stream` runs after batch `number`, which NCCL has; forgets batches up to it, and with them
  /// their hold on memory.
  void wait(std::uint64_t number, const cuda::Stream& queue_stream);
  /// The GPU has done all that NCCL was given, and nothing else waits to be.
  bool idle();
  /// The first batch never waited for, or null.
  const Batch* unwaited() const { return batches_.empty() ? nullptr : batches_.front().get(); }
  /// Counts batches that the GPU has done.
  std::uint64_t completed();
  /// Throws Error(fail) where NCCL has found an error since.
  void look_for_errors();
  /// Main splits the communicator, and asks it; NCCL takes the calls on one from one thread at a time.
  void set_splitting(bool splitting) { splitting_ = splitting; }
  /// Gives up what it holds; nothing of it is on its way any more.
  void drop() { batches_.clear(); }

  /// Unfinished transfers of the batch whose turn it is, in words, and the peer (in the world) of the first.
  struct Outstanding {
    std::uint64_t number = 0;  // of the batch; 0: none
    std::string words;
    int peer = -1;
    const char* region = nullptr;
    Location where{};
    bool computing = false;  // its memory is not ready: the GPU works
  };
  Outstanding outstanding();

  /// The message of a message that nobody received: its sender's side in words; empty when there is none, or checks are
  /// off.
  std::string take_unread(int member);

  int group() const { return group_; }
  int queue() const { return queue_; }
  std::uint64_t key() const { return key_; }
  const std::shared_ptr<Communicator>& communicator() const { return communicator_; }
  const std::vector<int>& members() const { return communicator_->members; }
  const std::vector<Traffic>& traffic() const { return traffic_; }  ///< by member

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
  void compare(const Batch& batch, const Transfer& transfer, const std::string& message);
  void launch(Batch& batch);
  void hand_over(const Batch& batch);

  Job& job_;
  std::shared_ptr<Communicator> communicator_;
  int group_;
  int queue_;
  std::uint64_t key_;  // alike on all members
  std::vector<Traffic> traffic_;
  std::deque<std::unique_ptr<Batch>> batches_;  // started and not waited for
  std::deque<Launched> on_gpu_;                 // not known to be done
  std::uint64_t started_ = 0;
  std::uint64_t launched_ = 0;
  std::uint64_t waited_ = 0;
  std::uint64_t completed_ = 0;
  bool splitting_ = false;
};

}  // namespace lockstep::nccl
