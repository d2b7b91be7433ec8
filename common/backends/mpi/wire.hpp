// Wire format: bytes in parts that MPI can count, and the header before them, which describes the sender's side.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstddef>

#include "common/runtime/processes/envelope.hpp"

namespace lockstep::mpi {

inline constexpr int kHead = 1, kBody = 2, kAcknowledge = 3;  // tags

/// Precedes each message while checks are on or links are emulated.
struct Header : processes::Envelope {
  double ready = 0;     // modelled seconds: earliest time at which the sender could have sent it
  double granted = -1;  // modelled seconds: time its first byte left; −1: the receiver decides (rendezvous)
};

/// Sent by the receiver of an emulated message above eager_bytes: time at which the first byte left.
struct Acknowledgement {
  double granted = 0;
};

/// Size of a part. MPI counts in int, so longer messages travel in several parts.
inline constexpr std::size_t kPartBytes = std::size_t{1} << 30;
inline std::size_t parts_of(std::size_t bytes) { return bytes == 0 ? 1 : (bytes + kPartBytes - 1) / kPartBytes; }
inline std::size_t part_bytes(std::size_t bytes, std::size_t part) {
  return std::min(kPartBytes, bytes - part * kPartBytes);
}

/// Number of bytes that a completed receive brought.
inline std::size_t bytes_received(const MPI_Status& status) {
  int count = 0;
  MPI_Get_count(&status, MPI_BYTE, &count);
  return static_cast<std::size_t>(count);
}

}  // namespace lockstep::mpi
