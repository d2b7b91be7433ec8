// Work given to a stream and not known to be complete: shows how far the GPU has come, and what hangs if it stops.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "common/devices/cuda/event.hpp"
#include "common/error.hpp"

namespace lockstep::cuda {

/// Backlog of one stream. Operations are counted in pieces, since an event per operation takes as long as a short
/// operation.
class Backlog {
 public:
  /// `operation`, a literal, was just given to `stream`.
  void add(const char* operation, Location where, EventPool& events, cudaStream_t stream);
  /// `end` was recorded after everything that was added.
  void close(const Event& end);
  /// Forgets operations that the GPU has passed; returns their total number so far.
  std::uint64_t look(EventPool& events, cudaStream_t stream);
  /// State at the last look: "the last 17 operations, from matmul at gpt.cpp:81 (forward)", at least one of which is
  /// not complete; empty if all are.
  std::string words() const;

 private:
  static constexpr std::uint64_t kPiece = 32;     // operations
  static constexpr std::size_t kManyPieces = 64;  // number of pieces at which to forget old ones
  struct Piece {
    const char* operation;  // the first of the piece
    Location where;
    std::uint64_t operations = 0;
    Event end;  // empty while it may grow
  };
  void forget();
  std::deque<Piece> pieces_;
  std::uint64_t passed_ = 0;
};

}  // namespace lockstep::cuda
