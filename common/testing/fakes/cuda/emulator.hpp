// Runs a CUDA kernel on this thread of the host: block after block, each CUDA thread on a stack of its own that gives
// way where the kernel waits for others. What depends on luck on a GPU is an error here: a barrier that some threads of
// a block never reach, a shuffle from a lane that is absent, shared memory used before it is written (it is poisoned
// with NaN at the start of each block). C++17, because kernels include it.
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
  bool check_threads = false;  // ThreadSanitizer sees each thread of a block as a thread of its own
};

/// Runs `thread` once for every thread of the launch. Returns what went wrong, with kernel, block, thread and line, or
/// an empty string; after an error the rest of the launch does not run.
std::string run_kernel(const KernelLaunch& launch, const std::function<void()>& thread);

/// Makes what run_kernel keeps for this thread of the host.
void prepare_emulator();

/// From a kernel: the calling thread waits until every lane of `mask` is here; then `together` has run once, given
/// what each lane brought. All must bring the same `together` and mask.
using Together = void (*)(void* const* of_lane, unsigned mask);
void meet_warp(unsigned mask, void* mine, Together together, const char* name, Site site);

/// From a kernel: waits until every thread of the block is here.
void meet_block(const char* name, Site site);

/// From a kernel: the block's dynamic shared memory, aligned to 128 bytes.
void* dynamic_shared_memory();

/// From a kernel: ends it with an error.
[[noreturn]] void kernel_error(const std::string& what, Site site);

/// The same where no exception may pass: the calling thread's stack is never gone back to. Outside kernels it ends the
/// program.
[[noreturn]] void stop_kernel(std::string&& what, Site site);

/// From a kernel: copies of 16 bytes that happen as late as they may, when they are waited for.
void cp_async_16(void* shared, const void* global, Site site);
void cp_async_commit();
void cp_async_wait(int groups);

}  // namespace lockstep::fake
