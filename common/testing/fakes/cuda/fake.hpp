// The interface of the fake GPU for tests: a fake of the CUDA runtime on the host. The backends' host code and kernels
// run on it unchanged, and it reports mistakes that a real GPU would tolerate: see docs/maintain/fake-gpu.md.
//
// A stream is a queue of tasks. Tasks run on a host thread when that thread waits, polls or, sometimes, makes any call.
// A seed determines which stream proceeds next, and how early. So a run can be repeated, and a forgotten wait gives
// wrong results with many seeds. ThreadSanitizer treats each stream as a thread that is ordered with others only by
// CUDA's guarantees, and reports a forgotten wait with any seed.
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
  std::size_t memory_bytes = 2ull << 30;  // per device: LOCKSTEP_FAKE_MEMORY
  std::uint64_t library_seed = 1;         // order of additions in matrix products: LOCKSTEP_FAKE_LIBRARY
  std::string name = "Fake GPU";          // LOCKSTEP_FAKE_NAME
  int driver_version = CUDART_VERSION;    // LOCKSTEP_FAKE_DRIVER; 0: no driver is installed
  int runtime_version = CUDART_VERSION;
  int major = 9, minor = 0;            // compute capability
  int multiprocessors = 132;           // LOCKSTEP_FAKE_MULTIPROCESSORS
  int cudnn = 0;                       // attention: 0 not available, 1 available, 2 rejects everything:
                                       // LOCKSTEP_FAKE_CUDNN
  int most_shared_bytes = 227 * 1024;  // per block, on request; graphics GPUs: 99 KiB
  bool check_threads = false;          // with ThreadSanitizer, also check races between threads of a block:
                                       // LOCKSTEP_FAKE_THREADS
};

/// Returns the settings in the environment, which a program starts with.
Settings settings_of_environment();

/// Returns the current settings.
Settings settings();

/// Restarts with these settings: no streams, no memory. Keeps the problems found so far.
void configure(const Settings& settings);

/// Returns descriptions of the problems found since the last call: double frees, use of pointers, streams or events
/// that do not exist, copies and kernels that leave their allocation, use after free, errors in kernels. A program that
/// ends with problems that it has not taken ends with exit code 86.
std::vector<std::string> take_problems();

/// Runs everything, then returns the problems of take_problems, and memory, streams and events that were never
/// released.
std::vector<std::string> finish();

/// Queues `task` on a stream, for fakes of other libraries; it runs on the stream's timeline.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> task);

/// The same for a task that may have to wait for other streams or threads: `attempt` does nothing and returns false as
/// long as it cannot run. It is first tried when it has `multiprocessors` of the device, like a kernel of so many
/// blocks, and keeps them until it returns true.
cudaError_t enqueue_attempt(cudaStream_t stream, std::function<bool()> attempt, int multiprocessors = 0);

/// Number of kernels that hold multiprocessors of the calling thread's device and wait.
int spinning_kernels();

/// Called for operations that CUDA may delay until the calling thread's device is idle. Reports a problem if a task on
/// it holds multiprocessors and waits: the event that it waits for may come after this call.
void comes_when_idle(const std::string& what);
/// The same for loading a kernel's code, at its first use since the device was configured.
void load_code(const std::string& kernel);

/// Number of kernels launched since the GPU was configured, including those counted by fakes of libraries.
std::uint64_t launches();
void count_launch();

/// Ends the work of the calling thread's device with `error`, like a fault in a kernel: every later call returns it.
void break_device(cudaError_t error, const std::string& why);

}  // namespace lockstep::fake
