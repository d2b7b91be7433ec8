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
  int driver_version = CUDART_VERSION;    // 0: no driver is installed: LOCKSTEP_FAKE_DRIVER
  int runtime_version = CUDART_VERSION;
  int major = 9, minor = 0;  // compute capability
  int multiprocessors = 4;
  int most_shared_bytes = 227 * 1024;  // of a block that asks; GPUs for graphics: 99 KiB
  bool check_threads = false;  // with ThreadSanitizer: races between threads of a block, too. LOCKSTEP_FAKE_THREADS
};

/// The settings of the environment: what a program starts with.
Settings settings_of_environment();

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
/// as long as it cannot run.
cudaError_t enqueue_attempt(cudaStream_t stream, std::function<bool()> attempt);

/// Ends the work of the calling thread's device with `error`, as a fault of a kernel does: every later call returns it.
void break_device(cudaError_t error, const std::string& why);

}  // namespace lockstep::fake
