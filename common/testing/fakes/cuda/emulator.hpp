// Runs a CUDA kernel on this host thread: block after block, each CUDA thread on its own stack, which is switched where
// the kernel waits for other threads. Behaviour that is undefined on a GPU is an error here: a barrier that some
// threads of a block never reach, a shuffle from an absent lane, shared memory used before it is written (it is
// poisoned with NaN at the start of each block). C++17, because kernels include it.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace lockstep::fake {

/// A line of a kernel.
struct Site {
  const char* file;
  int line;
};

struct KernelLaunch {
  const void* kernel;  // its address, for messages
  dim3 grid, block;
  std::size_t shared_bytes;    // dynamic
  std::uint64_t order = 0;     // seed of the order of blocks
  bool check_threads = false;  // ThreadSanitizer treats each thread of a block as a thread of its own
};

/// Runs `thread` once for every thread of the launch. Returns a description of the error, with kernel, block, thread
/// and line, or an empty string; after an error the rest of the launch does not run.
std::string run_kernel(const KernelLaunch& launch, const std::function<void()>& thread);

/// Creates the state that run_kernel keeps for this host thread.
void prepare_emulator();

/// From a kernel: the calling thread waits until every lane of `mask` is here. Then `together` runs once with the
/// pointers that the lanes passed. All lanes must pass the same `together` and mask.
using Together = void (*)(void* const* of_lane, unsigned mask);
void meet_warp(unsigned mask, void* mine, Together together, const char* name, Site site);

/// From a kernel: waits until every thread of the block is here.
void meet_block(const char* name, Site site);

/// From a kernel: returns the block's dynamic shared memory, aligned to 128 bytes.
void* dynamic_shared_memory();

/// From a kernel: ends it with an error.
[[noreturn]] void kernel_error(const std::string& what, Site site);

/// The same where no exception may pass: never resumes the calling thread's stack. Outside kernels it ends the program.
[[noreturn]] void stop_kernel(std::string&& what, Site site);

/// From a kernel: copies 16 bytes as late as allowed, when the copy is waited for.
void cp_async_16(void* shared, const void* global, Site site);
void cp_async_commit();
void cp_async_wait(int groups);

}  // namespace lockstep::fake
