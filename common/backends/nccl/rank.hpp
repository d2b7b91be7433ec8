// One rank on one GPU: the verbs of common/runtime/backend.hpp for one process.
//
// Host code issues work to the GPU and continues. It waits at explicit synchronisations (read, to_host, now) and, while
// checks are on, for the control messages that announce what a batch receives. Every queue is a stream, and every
// (group, queue) a communicator with its own stream (endpoint.hpp). Failures and wait tables travel separately
// (watch.hpp).
#pragma once

#include <memory>
#include <thread>

#include "common/backends/nccl/communicators.hpp"
#include "common/backends/nccl/endpoint.hpp"
#include "common/backends/nccl/job.hpp"
#include "common/backends/nccl/watch.hpp"
#include "common/devices/cuda/memory.hpp"
#include "common/devices/cuda/supplies.hpp"
#include "common/runtime/machine/operation.hpp"
#include "common/runtime/processes/rank_core.hpp"

namespace lockstep::nccl {

using processes::Doing;
using processes::Group;
using processes::SetUp;

class NcclRank final : public processes::RankCore<Endpoint> {
 public:
  NcclRank(std::unique_ptr<Job> job, Communicators& communicators, cuda::DeviceMemory& memory, cuda::Staging& staging,
           const cuda::DeviceSupplies& supplies, std::function<void(const std::string&)> end_job);
  ~NcclRank() override;
  /// Call after the outcome: ends the rank's threads and frees its part of the job. Slices may still return their
  /// memory.
  void shut_down();

  void compute(CommunicatorKey at, const Operation& operation, Kernel kernel, Location where) override;
  bool fuses_gelu() const override { return cuda_fuses_gelu(); }
  bool fuses_pieces() const override { return true; }
  void open_region(CommunicatorKey at, const char* name, std::size_t bytes, Location where) override;
  void close_region(int queue) override;
  void upload(CommunicatorKey at, const Slice& slice, const void* values, Location where) override;
  bool download(CommunicatorKey at, const Slice& slice, void* bytes, Location where) override;
  bool peek(CommunicatorKey at, const Slice& slice, void* bytes) override;
  RankLedger ledger() const override;
  double now(int queue) const override;

  /// Passes the world's communicator and its stream to `f`, in the order of main's work, for uses outside the contract,
  /// such as a library's own collective. Main only, with no batch in flight. Does not call `f` in a run of one rank.
  void with_world(const std::function<void(ncclComm_t, cudaStream_t)>& f, Location where = Location::current());

  using RankCore::kQueues;

  /// For tests of what happens while the gate is held.
  processes::Gate& gate() { return job_.gate; }

  /// Collective, after every rank's program: agrees on failures, finds unread messages, and waits for the GPU to
  /// finish.
  void finish();

 private:
  void begin_program() override;
  void end_program() override;
  bool closures_have_threads() const override { return job_.checked(); }
  bool memory_has_times() const override { return false; }
  void wait_for_batch(Queue& queue, Endpoint& endpoint, Ticket ticket, Location where) override;
  void go_on_after(Queue& queue, Ticket closure, double began, Location where) override;
  std::vector<SetUp> all_calls(const Group& group, const SetUp& mine, Location where) override;
  std::unique_ptr<Endpoint> connect(const Group& group, int queue, Location where) override;
  std::unique_ptr<Endpoint> connect_split(const Group& parent, const SetUp& mine, const Group* made,
                                          Location where) override;
  void* take_memory(Queue& queue, std::size_t bytes, Category category, Location where) override;
  void give_memory(const Block& block) override;
  std::vector<std::string> gather(const char* what, const std::string& mine, bool for_all) override;
  void describe_gpu(Row& row) const override;

  /// Polls done() until it is true; false if the run has failed and the caller is already unwinding.
  bool wait_until(Queue& queue, const Doing& doing, const std::function<bool()>& done) const;
  bool wait_for_gpu(Queue& queue, const cuda::Event& event, Location where) const;
  void advance_endpoints();
  template <class F>
  void waits(Queue& queue, const Ticket& ticket, Location where,
             F enqueue);  // its stream waits for what `enqueue` gives it
  bool gpu_is_idle();
  bool gpu_comes_to_an_end();
  void copy_out(Queue& queue, const Slice& slice, void* bytes, Location where);

  Endpoint& main_of(const Group& group) const;
  void wait_for_endpoint(Endpoint& endpoint, const char* verb, Location where);
  std::shared_ptr<Communicator> split_communicator(const Group& parent, int color, const Group* made,
                                                   const std::string& queue, const char* verb, Location where);
  std::unique_ptr<Endpoint> new_endpoint(std::shared_ptr<Communicator> communicator, int group, int queue);

  // The end.
  void drain();
  void clean_up();

  // The watching thread.
  void keep_watch();
  std::string unfinished_arithmetic() const;

  Communicators& communicators_;
  cuda::DeviceMemory& memory_;
  cuda::Staging& staging_;
  const cuda::DeviceSupplies& supplies_;
  std::function<void(const std::string&)> end_job_;
  struct Parked {
    void* data;
    int queue;
  };
  std::mutex memory_mutex_;
  std::vector<Parked> parked_;   // freed after the run failed: abandoned work may still use it
  bool given_up_ended_ = false;  // true once abandoned work can no longer use it

  cuda::Event ended_;  // end of main's program
  Watch watch_;
  std::atomic<bool> stop_watching_{false};
  std::atomic<bool> over_{false};  // every rank has finished, and its GPU too: no more failures
  std::thread watcher_;
};

}  // namespace lockstep::nccl
