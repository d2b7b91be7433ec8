// One rank on one GPU: the verbs of common/runtime/backend.hpp for one process.
//
// Host code gives work to the GPU and goes on; it waits at explicit synchronisations (read, to_host, now), and, while
// checks are on, for the control messages that announce what a batch receives. Every queue is a stream, and every
// (group, queue) a communicator with a stream of its own (endpoint.hpp). Failures and wait tables travel beside them
// (watch.hpp).
#pragma once

#include <array>
#include <exception>
#include <map>
#include <memory>
#include <thread>

#include "common/backends/nccl/communicators.hpp"
#include "common/backends/nccl/endpoint.hpp"
#include "common/backends/nccl/job.hpp"
#include "common/backends/nccl/queue.hpp"
#include "common/backends/nccl/watch.hpp"
#include "common/devices/cuda/memory.hpp"
#include "common/runtime/backend.hpp"
#include "common/runtime/machine/operation.hpp"
#include "common/runtime/processes/set_up.hpp"

namespace lockstep::nccl {

using processes::SetUp;

struct Group {
  std::vector<int> members;   // world ranks
  int rank = -1;              // mine; −1: this rank is no member
  std::uint64_t set_ups = 0;  // calls so far
  Endpoint* main = nullptr;
};

class NcclRank final : public Backend, public BlockOwner {
 public:
  NcclRank(std::unique_ptr<Job> job, Communicators& communicators, cuda::DeviceMemory& memory, cuda::Staging& staging,
           std::function<void(const std::string&)> end_job);
  ~NcclRank() override;

  Ticket start(CommunicatorKey at, std::span<const Transfer> batch, Location where) override;
  void wait(CommunicatorKey at, Ticket ticket, Location where) override;
  Rank split(CommunicatorKey at, int color, int key, Location where) override;
  Rank stream(CommunicatorKey at, std::string_view name, Location where) override;
  Ticket run(CommunicatorKey main, Rank queue, std::function<void(Rank)> f, Location where) override;
  Slice allocate(CommunicatorKey at, std::size_t count, DType dtype, Category category, Location where) override;
  void compute(CommunicatorKey at, const Operation& operation, Kernel kernel, Location where) override;
  bool fuses_gelu() const override { return cuda_fuses_gelu(); }
  void open_region(CommunicatorKey at, const char* name, std::size_t bytes, Location where) override;
  void close_region(int queue) override;
  void upload(CommunicatorKey at, const Slice& slice, const void* values, Location where) override;
  bool download(CommunicatorKey at, const Slice& slice, void* bytes, Location where) override;
  bool peek(CommunicatorKey at, const Slice& slice, void* bytes) override;
  RankLedger ledger() const override;
  double now(int queue) const override;
  int world_rank() const override { return job_->rank; }
  void release(Block& block) override;

  /// Hands the world's communicator and the stream it runs on to `f`, in the order of main's work: for what stands
  /// beside the contract, such as a library's own collective. Main only, with no batch on its way. Not called on one
  /// rank.
  void with_world(const std::function<void(ncclComm_t, cudaStream_t)>& f, Location where = Location::current());

  /// The program on this rank, from beginning to end; failures are left in the job.
  Values play(const Program& program);
  /// Collective: every rank has played. Failures are agreed on, unread messages found, the GPU has come to an end.
  void finish();
  bool has_outliving_slices() const { return live_blocks_ > 0; }
  std::vector<std::string> queue_names() const;
  Job& job() { return *job_; }

 private:
  /// The queue a verb is called on, or null while an exception unwinds its thread. Throws Unwind when the run has
  /// failed, and Error(usage) when the calling thread does not run that queue's work.
  Queue* enter(int queue, Location where) const;
  int running_queue() const;                 // whose work the calling thread does; −1: no queue's
  Endpoint& endpoint(int group, int queue);  // gate held
  Group& group(int index, Location where = Location::current());
  Rank handle(int group, int queue);

  void wait_for_batch(Queue& queue, Ticket ticket, Location where);
  void wait_for_closure(Queue& main, Ticket ticket, Location where);
  /// Until done(), asked again and again; false when the run has failed and the caller unwinds already.
  bool wait_until(Queue& queue, const Doing& doing, const std::function<bool()>& done) const;
  bool wait_for_gpu(Queue& queue, const cuda::Event& event, Location where) const;
  void advance_endpoints();
  void end_stretch(Queue& queue) const;
  template <class F>
  void waits(Queue& queue, const Ticket& ticket, Location where,
             F enqueue);  // its stream waits for what `enqueue` gives it
  void* memory_for(Queue& queue, std::size_t bytes, Category category, Location where);
  bool gpu_is_idle();
  bool gpu_comes_to_an_end();
  void copy_out(Queue& queue, const Slice& slice, void* bytes, Location where);

  // Set-up.
  void open_world();
  std::vector<SetUp> agree(Group& group, const SetUp& mine, Location where);
  int split_groups(Group& parent, const std::vector<SetUp>& calls, Label label);
  int make_group(const std::vector<int>& members);
  int queue_named(std::string_view name);
  void open_endpoint(int group, int queue, std::shared_ptr<Communicator> communicator);
  void wait_for_endpoint(Endpoint& endpoint, const char* verb, Location where);

  // The end.
  void check_all_waited();
  void end_program();
  void agree_on_failure(const char* when);
  void find_unread();
  void drain();
  void clean_up();

  // The watching thread.
  void keep_watch();
  Row describe_me();
  Row describe_queue(Queue& queue);
  void describe_gpu(Row& row);
  std::string unfinished_arithmetic();

  static constexpr int kQueues = 64;

  std::unique_ptr<Job> job_;
  Communicators& communicators_;
  cuda::DeviceMemory& memory_;
  cuda::Staging& staging_;
  std::function<void(const std::string&)> end_job_;
  const std::thread::id main_thread_ = std::this_thread::get_id();
  int inline_queue_ = 0;  // whose closure runs on main's thread; 0: none
  std::array<std::unique_ptr<Queue>, kQueues> queues_;
  std::atomic<int> queue_count_{0};
  std::vector<std::unique_ptr<Group>> groups_;
  std::map<std::vector<int>, int> group_of_members_;
  std::array<std::vector<std::unique_ptr<Endpoint>>, kQueues> endpoints_;  // [queue][group]; under the gate
  std::vector<Endpoint*> all_endpoints_;                                   // in order of creation; under the gate

  std::mutex memory_mutex_;
  std::vector<Block*> parked_;  // released after the run failed: work that was given up may still touch them
  std::uint64_t blocks_ = 0;    // allocated so far
  std::atomic<std::uint64_t> live_blocks_{0};

  cuda::Event ended_;  // main's program
  Watch watch_;
  std::atomic<bool> stop_watching_{false};
  std::atomic<bool> over_{false};  // every rank has played, and its GPU has ended: no more failures
  std::thread watcher_;
};

}  // namespace lockstep::nccl
