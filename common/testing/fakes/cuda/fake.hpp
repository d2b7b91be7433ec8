// The fake GPU, as tests see it: a double of the CUDA runtime on the host. The backends' host code and kernels run
// with it unchanged, and it finds what a real GPU would forgive: see docs/fake-gpu.md.
//
// A stream is a queue of tasks. They run when the host waits, asks or, sometimes, just calls, on the thread that does;
// which stream goes on next, and how early, is drawn from a seed. So a run can be repeated, and a forgotten wait gives
// wrong results with many seeds. ThreadSanitizer sees each stream as a thread of its own, ordered with others by
// nothing but what CUDA promises, and reports a forgotten wait with any seed.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::fake {

struct Settings {
  int devices = 1;                        // LOCKSTEP_FAKE_DEVICES
  std::uint64_t seed = 1;                 // LOCKSTEP_FAKE_SEED
  std::size_t memory_bytes = 2ull << 30;  // of each device: LOCKSTEP_FAKE_MEMORY
  std::uint64_t library_seed = 1;         // the order in which matrix products add: LOCKSTEP_FAKE_LIBRARY
  std::uint64_t times_seed =
      1;  // how long these ways take: LOCKSTEP_FAKE_TIMES; else each process has times of its own
  std::string name = "Fake GPU";        // LOCKSTEP_FAKE_NAME
  int driver_version = CUDART_VERSION;  // 0: no driver is installed: LOCKSTEP_FAKE_DRIVER
  int runtime_version = CUDART_VERSION;
  int major = 9, minor = 0;            // compute capability
  int multiprocessors = 132;           // LOCKSTEP_FAKE_MULTIPROCESSORS
  int cudnn = 0;                       // attention: 0 not in the program, 1 there, 2 refuses all: LOCKSTEP_FAKE_CUDNN
  int most_shared_bytes = 227 * 1024;  // of a block that asks; GPUs for graphics: 99 KiB
  bool check_threads = false;  // with ThreadSanitizer: races between threads of a block, too. LOCKSTEP_FAKE_THREADS
};

/// The settings of the environment: what a program starts with.
Settings settings_of_environment();

/// Those that hold.
Settings settings();

/// Begins again with these settings: no streams, no memory. What was found before is kept.
void configure(const Settings& settings);

/// What was found since the last call, in words: double frees, use of pointers, streams or events that do not exist,
/// copies and kernels that leave their allocation, use after free, errors in kernels. A program that ends with
/// something found that nobody asked for ends with exit code 86.
std::vector<std::string> take_problems();

/// Runs everything, then tells of memory, streams and events that were never given back, and everything take_problems
/// tells.
std::vector<std::string> finish();

/// Queues `task` on a stream, for doubles of other libraries; it runs on the stream's timeline.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> task);

/// The same for one that may have to wait for other streams or threads: `attempt` returns false, having done nothing,
/// as long as it cannot run. It is first tried when `multiprocessors` of the device are its own, as those that a
/// kernel of so many blocks fills, and keeps them until it returns true.
cudaError_t enqueue_attempt(cudaStream_t stream, std::function<bool()> attempt, int multiprocessors = 0);

/// Kernels of the calling thread's device that hold multiprocessors and wait.
int spinning_kernels();

/// The host takes what may come only when all that is on the calling thread's device has ended. A problem, found in
/// words, where something that holds multiprocessors and waits is on it: what it waits for may come after this call.
void comes_when_idle(const std::string& what);
/// The same for a kernel's code, which comes with its first use since the device was configured.
void load_code(const std::string& kernel);

/// Kernels that were launched since the GPU was configured, and those that doubles of libraries counted.
std::uint64_t launches();
void count_launch();

/// Ends the work of the calling thread's device with `error`, as a fault of a kernel does: every later call returns it.
void break_device(cudaError_t error, const std::string& why);

}  // namespace lockstep::fake
