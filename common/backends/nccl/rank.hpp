// One rank on one GPU: the verbs of common/runtime/backend.hpp for one process.
//
// Host code gives work to the GPU and goes on; it waits at explicit synchronisations (read, to_host, now), and, while
// checks are on, for the control messages that announce what a batch receives. Every queue is a stream, and every
// (group, queue) a communicator with a stream of its own (endpoint.hpp). Failures and wait tables travel beside them
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
  /// After the outcome: its threads end, and what it has of the job is given back; slices may still come back to it.
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

  /// Hands the world's communicator and the stream it runs on to `f`, in the order of main's work: for what stands
  /// beside the contract, such as a library's own collective. Main only, with no batch on its way. Not called on one
  /// rank.
  void with_world(const std::function<void(ncclComm_t, cudaStream_t)>& f, Location where = Location::current());

  using RankCore::kQueues;

  /// For tests of what happens while somebody holds it.
  processes::Gate& gate() { return job_.gate; }

  /// Collective: every rank has played. Failures are agreed on, unread messages found, the GPU has come to an end.
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

  /// Until done(), asked again and again; false when the run has failed and the caller unwinds already.
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
  std::vector<Parked> parked_;   // released after the run failed: work that was given up may still touch it
  bool given_up_ended_ = false;  // it cannot any more

  cuda::Event ended_;  // main's program
  Watch watch_;
  std::atomic<bool> stop_watching_{false};
  std::atomic<bool> over_{false};  // every rank has played, and its GPU has ended: no more failures
  std::thread watcher_;
};

}  // namespace lockstep::nccl
