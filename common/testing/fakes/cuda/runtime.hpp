// Internals of the fake GPU: streams as queues of tasks, and their scheduling.
#pragma once

#include <cuda_runtime.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/testing/fakes/cuda/fake.hpp"
#include "common/testing/fakes/cuda/memory.hpp"

namespace lockstep::fake {

/// A point in a stream: one recording of an event.
struct Mark {
  CUstream_st* stream;
  bool reached = false;
  double seconds = 0;  // time of reaching it, by the host's clock
};

struct Task {
  std::function<bool()> run;    // runs on the stream's timeline, without the lock; returns false if it cannot run yet
  std::function<void()> after;  // runs with the lock, after `run`
  std::shared_ptr<Mark> awaits;
  std::shared_ptr<Mark> reaches;
  int multiprocessors = 0;   // held from its start to its end; it starts when it has them all
  int taken = 0;             // number of them that it has
  std::uint64_t number = 0;  // in the order of calls
  bool started = false;
};

}  // namespace lockstep::fake

struct CUstream_st {
  int device = 0;
  bool blocking = true;    // waits for the default stream, and vice versa
  bool destroyed = false;  // its remaining tasks still run
  bool running = false;
  int channel = 0;     // hardware channel on its device
  bool stuck = false;  // its first task could not run when last tried
  std::deque<std::unique_ptr<lockstep::fake::Task>> tasks;
  void* context = nullptr;  // from order::make_context
};

struct CUevent_st {
  std::shared_ptr<lockstep::fake::Mark> last;
  bool timed = true;
};

namespace lockstep::fake {

using Lock = std::unique_lock<std::mutex>;

class Runtime {
 public:
  Runtime();
  ~Runtime();
  Runtime(const Runtime&) = delete;

  std::mutex mutex;
  Settings settings;
  Memory memory;
  std::set<CUevent_st*> events;
  std::map<const void*, int> most_shared_bytes;  // for kernels that asked for more
  cudaError_t broken = cudaSuccess;              // every call returns it

  void begin(const Settings& with);

  CUstream_st* add_stream(int device, bool blocking);
  /// Returns the stream of a handle, null if it does not exist. Null and cudaStreamLegacy are the device's default.
  CUstream_st* find_stream(cudaStream_t handle, int device);
  void destroy(CUstream_st* stream);
  std::size_t streams_alive() const;

  /// Queues a task; sometimes runs others at once.
  void add(Lock& lock, CUstream_st* stream, Task task);
  std::shared_ptr<Mark> mark(CUstream_st* stream);

  /// Runs tasks until `mark` is reached; orders the caller's thread after it.
  void wait(Lock& lock, const std::shared_ptr<Mark>& mark);
  void wait_for_all(Lock& lock, int device);
  /// Lets the device progress a little, because the caller polls `stream`.
  void poll(Lock& lock, CUstream_st* stream);

  int spinning_kernels(int device) const;
  void comes_when_idle(int device, const std::string& what);
  std::set<std::string> loaded;  // loaded code of libraries' kernels
  std::uint64_t launches = 0;

  std::uint64_t draw_order() { return orders_(); }

  void problem(const std::string& what);
  void fault(cudaError_t error, const std::string& why);
  std::vector<std::string> take_problems();

 private:
  bool can_run(CUstream_st& stream);
  bool is_behind_another(const CUstream_st& stream) const;
  bool take_multiprocessors(int device, Task& task);
  CUstream_st* pick(CUstream_st* wanted);
  void run_first(Lock& lock, CUstream_st* stream);
  void push(CUstream_st* stream, Task task);
  void remove_finished();
  bool chance(double probability) { return std::generate_canonical<double, 32>(random_) < probability; }

  std::condition_variable changed_;
  std::vector<std::unique_ptr<CUstream_st>> streams_;
  std::vector<CUstream_st*> default_stream_;  // by device
  std::vector<int> free_multiprocessors_;     // by device
  int channels_ = 8;
  int streams_made_ = 0;
  std::uint64_t tasks_made_ = 0;
  std::vector<std::string> problems_;
  std::mt19937_64 random_;
  std::mt19937_64 orders_;  // for the order of blocks
  double early_ = 0;        // probability that a call runs something at once
  double stray_ = 0;        // probability that a task runs that nobody waits for
};

/// The runtime of this process, as in CUDA.
Runtime& runtime();

/// True while this thread runs a task: CUDA forbids calls from tasks.
bool& inside_task();

}  // namespace lockstep::fake
