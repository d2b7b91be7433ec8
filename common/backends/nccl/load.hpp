// What the communicators and streams of one process ask of its GPU.
//
// While a message of NCCL's waits for its other end, its kernel spins: each of its CTAs (thread blocks) keeps a
// multiprocessor. Where kernels of many communicators fill them all, arithmetic that another rank waits for cannot
// begin: a deadlock. So each communicator may have few CTAs. And the GPU begins work in few channels, each in the order
// given: with more streams than channels, a stream's work can be behind another's that waits.
#pragma once

#include <nccl.h>

#include <string>

namespace lockstep::nccl {

/// Of a communicator, unless NCCL_MAX_CTAS says otherwise, as NCCL has it: five lanes that overlap leave two thirds of
/// an H100's 132 multiprocessors to arithmetic.
inline constexpr int kMostCtas = 8;

/// How many CTAs a communicator may have in this process.
int most_ctas();

/// What every communicator is made with: calls do not block, nothing is shared, few CTAs.
ncclConfig_t configuration();

/// How many channels this process's streams share: CUDA_DEVICE_MAX_CONNECTIONS, or CUDA's 8.
int hardware_channels();

struct Load {
  int communicators = 0;  // of this process, without groups of one
  int ctas = kMostCtas;   // of each
  int multiprocessors = 0;
  int streams = 0;
  int channels = 0;

  int busy() const { return communicators * ctas; }
  /// "6 communicators of at most 8 CTAs: 48 of 132 multiprocessors while all spin; 9 streams in 32 hardware channels"
  std::string words() const;
  /// What may hang, or be slow, and what to set; a line each, or empty.
  std::string warning() const;
};

}  // namespace lockstep::nccl
