// The parts of CUDA C++ that kernels use, for the host's compiler: a .cu file compiles as C++17, and its kernels run in
// the emulator. The include path selects it instead of common/devices/cuda/language/kernel_language.hpp.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>

#include "common/testing/fakes/cuda/emulator.hpp"

// One host thread runs one block at a time, so a block's shared memory is thread-local.
#undef __shared__
#define __shared__ static thread_local
#undef __global__
#define __global__
#undef __device__
#define __device__
#undef __host__
#define __host__
#undef __constant__
#define __constant__ const
#undef __grid_constant__
#define __grid_constant__
#undef __launch_bounds__
#define __launch_bounds__(...)

// The call site in a kernel: the last parameters of functions that may wait.
#define LOCKSTEP_FROM const char *file = __builtin_FILE(), int line = __builtin_LINE()

// Set by the emulator whenever a thread of the kernel resumes.
extern __thread uint3 threadIdx, blockIdx;
extern __thread dim3 blockDim, gridDim;
constexpr int warpSize = 32;

namespace lockstep::fake {

/// Queues a kernel on a stream: the equivalent of <<<grid, block, shared_bytes, stream>>>.
cudaError_t launch_kernel(KernelLaunch launch, std::function<void()> thread, cudaStream_t stream);

inline int lane() {
  const unsigned linear = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  return static_cast<int>(linear % 32);
}

enum class Half { bf16, f16 };

struct Mma {  // see tensor_cores.hpp
  float* d;
  const std::uint32_t *a, *b;
  const float* c;
};
void mma_m16n8k16(Mma mine, Half type, LOCKSTEP_FROM);

struct LoadMatrix {
  std::uint32_t* registers;  // 4
  const void* row;
};
void ldmatrix_x4(LoadMatrix mine, bool transposed, LOCKSTEP_FROM);

template <typename T>
struct Shuffle {
  T value;   // passed by this lane
  int from;  // the lane whose value this lane receives
  T taken;
  bool absent;  // that lane does not take part
};

/// Each lane of `mask` receives the value of lane `from`.
template <typename T>
T shuffle(unsigned mask, T value, int from, const char* name, Site site) {
  static_assert(std::is_trivially_copyable<T>::value, "a shuffle moves plain values");
  Shuffle<T> mine{value, from, value, false};
  meet_warp(
      mask, &mine,
      [](void* const* of_lane, unsigned present) {
        for (int i = 0; i < 32; ++i) {
          if (!(present >> i & 1)) continue;
          auto& lane = *static_cast<Shuffle<T>*>(of_lane[i]);
          lane.absent = !(present >> lane.from & 1);
          if (!lane.absent) lane.taken = static_cast<const Shuffle<T>*>(of_lane[lane.from])->value;
        }
      },
      name, site);
  if (mine.absent) kernel_error(std::string(name) + " takes a value from a lane that is not in its mask", site);
  return mine.taken;
}

/// Returns the lanes of `mask` whose predicate is true.
unsigned ballot(unsigned mask, bool predicate, const char* name, Site site);

/// Atomically value = f(value); returns the old value.
template <typename T, typename F>
T atomic_update(T* address, F f) {
  T was;
  __atomic_load(address, &was, __ATOMIC_RELAXED);
  T is = f(was);
  while (!__atomic_compare_exchange(address, &was, &is, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) is = f(was);
  return was;
}

}  // namespace lockstep::fake

// --- waiting ---------------------------------------------------------------------------------------------------------
// NOLINTBEGIN(bugprone-reserved-identifier): CUDA's names are CUDA's.
inline void __syncthreads(LOCKSTEP_FROM) { lockstep::fake::meet_block("__syncthreads", {file, line}); }
inline void __syncwarp(unsigned mask = 0xffffffffu, LOCKSTEP_FROM) {
  lockstep::fake::meet_warp(mask, nullptr, [](void* const*, unsigned) {}, "__syncwarp", {file, line});
}

// --- the warp --------------------------------------------------------------------------------------------------------
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int flip, int width = 32, LOCKSTEP_FROM) {
  const int lane = lockstep::fake::lane(), from = lane ^ flip;
  return lockstep::fake::shuffle(mask, value, from / width > lane / width ? lane : from, "__shfl_xor_sync",
                                 {file, line});
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, LOCKSTEP_FROM) {
  const int lane = lockstep::fake::lane(), from = lane - static_cast<int>(by);
  return lockstep::fake::shuffle(mask, value, from < lane / width * width ? lane : from, "__shfl_up_sync",
                                 {file, line});
}
inline unsigned __ballot_sync(unsigned mask, int predicate, LOCKSTEP_FROM) {
  return lockstep::fake::ballot(mask, predicate != 0, "__ballot_sync", {file, line});
}
inline int __any_sync(unsigned mask, int predicate, LOCKSTEP_FROM) {
  return lockstep::fake::ballot(mask, predicate != 0, "__any_sync", {file, line}) != 0;
}

// --- atomics ---------------------------------------------------------------------------------------------------------
template <typename T>
T atomicAdd(T* address, std::common_type_t<T> value) {
  return lockstep::fake::atomic_update(address, [value](T was) { return static_cast<T>(was + value); });
}
template <typename T>
T atomicMax(T* address, std::common_type_t<T> value) {
  return lockstep::fake::atomic_update(address, [value](T was) { return was < value ? value : was; });
}

// --- memory ----------------------------------------------------------------------------------------------------------
/// A store that is one instruction.
template <typename T>
void __stwb(T* address, T value) {
  *address = value;
}

// --- numbers ---------------------------------------------------------------------------------------------------------
// The C library declares some of these names for itself and does not define them.
#define __expf(x) lockstep::fake::within_2_ulp(::expf(x))

namespace lockstep::fake {
/// Emulates the error of the GPU's fast functions: returns a float up to two units in the last place from `exact`,
/// always the same for the same value, and 0 for a subnormal one. Powers of two are exact, like e^0 and x / x.
inline float within_2_ulp(float exact) {
  std::uint32_t bits;
  std::memcpy(&bits, &exact, sizeof bits);
  const std::uint32_t exponent = bits >> 23 & 0xff, fraction = bits & 0x7fffff;
  if (exponent == 0) return exact < 0 ? -0.0f : 0.0f;
  if (exponent == 0xff || fraction < 2 || fraction > 0x7ffffd) return exact;
  bits += (bits * 2654435761u >> 16) % 5 - 2;
  std::memcpy(&exact, &bits, sizeof exact);
  return exact;
}
}  // namespace lockstep::fake

inline float __fdividef(float x, float y) {
  return std::fabs(y) > 0x1p126f && std::fabs(y) < INFINITY ? 0.0f : lockstep::fake::within_2_ulp(x / y);
}

namespace lockstep::fake {
template <typename To, typename From>
To bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}
}  // namespace lockstep::fake
inline unsigned __float_as_uint(float x) { return lockstep::fake::bits<unsigned>(x); }
inline float __int_as_float(int x) { return lockstep::fake::bits<float>(x); }
inline float __uint_as_float(unsigned x) { return lockstep::fake::bits<float>(x); }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline unsigned __umulhi(unsigned x, unsigned y) {
  return static_cast<unsigned>((static_cast<unsigned long long>(x) * y) >> 32);
}
inline int min(int x, int y) { return x < y ? x : y; }
inline int max(int x, int y) { return x < y ? y : x; }
inline unsigned min(unsigned x, unsigned y) { return x < y ? x : y; }
inline unsigned max(unsigned x, unsigned y) { return x < y ? y : x; }
inline long min(long x, long y) { return x < y ? x : y; }
inline long max(long x, long y) { return x < y ? y : x; }
inline unsigned long min(unsigned long x, unsigned long y) { return x < y ? x : y; }
inline unsigned long max(unsigned long x, unsigned long y) { return x < y ? y : x; }
inline long long min(long long x, long long y) { return x < y ? x : y; }
inline long long max(long long x, long long y) { return x < y ? y : x; }
inline float min(float x, float y) { return fminf(x, y); }
inline float max(float x, float y) { return fmaxf(x, y); }

// NOLINTEND(bugprone-reserved-identifier)

// --- launches --------------------------------------------------------------------------------------------------------
namespace lockstep::kernels {

template <typename T>
T* dynamic_shared() {
  return static_cast<T*>(fake::dynamic_shared_memory());
}

template <typename... Parameters, typename... Arguments>
cudaError_t start(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream,
                  const Arguments&... arguments) {
  auto thread = [kernel, values = std::tuple<Parameters...>(static_cast<Parameters>(arguments)...)] {
    std::apply(kernel, values);
  };
  return fake::launch_kernel({reinterpret_cast<const void*>(kernel), grid, block, shared_bytes}, std::move(thread),
                             stream);
}

}  // namespace lockstep::kernels
