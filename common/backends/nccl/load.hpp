// Resources that the communicators and streams of one process need on its GPU.
//
// While an NCCL message waits for its other end, its kernel spins, and each of its CTAs (thread blocks) occupies a
// multiprocessor. If kernels of many communicators fill all multiprocessors, arithmetic that another rank waits for
// cannot begin: a deadlock. So each communicator may use only a few CTAs. Also, the GPU has few hardware channels and
// starts the work of each in issue order: with more streams than channels, a stream's work can get stuck behind that of
// a waiting one.
#pragma once

#include <nccl.h>

#include <string>

namespace lockstep::nccl {

/// CTAs per communicator, unless NCCL_MAX_CTAS overrides it, as in NCCL: five endpoints that overlap leave two thirds
/// of an H100's 132 multiprocessors to arithmetic.
inline constexpr int kMostCtas = 8;

/// Maximum number of CTAs per communicator in this process.
int most_ctas();

/// Configuration of every communicator: non-blocking calls, nothing shared, few CTAs.
ncclConfig_t configuration();

/// Number of channels that this process's streams share: CUDA_DEVICE_MAX_CONNECTIONS, or CUDA's default of 8.
int hardware_channels();

struct Load {
  int communicators = 0;  // of this process, without groups of one
  int ctas = kMostCtas;   // per communicator
  int multiprocessors = 0;
  int streams = 0;
  int channels = 0;

  int busy() const { return communicators * ctas; }
  /// "6 communicators of at most 8 CTAs: 48 of 132 multiprocessors while all spin; 9 streams in 32 hardware channels"
  std::string words() const;
  /// Warnings about possible hangs or slowness, and what to set, one per line; may be empty.
  std::string warning() const;
};

}  // namespace lockstep::nccl
