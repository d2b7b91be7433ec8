// What a stream was given and is not known to have done: how far the GPU has come, and what hangs when it goes no
// further.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "common/devices/cuda/event.hpp"
#include "common/error.hpp"

namespace lockstep::cuda {

/// Of one stream. Operations are counted by the piece, since an event for each takes as long as a short operation.
class Backlog {
 public:
  /// `operation` was given to `stream` just now; a literal.
  void add(const char* operation, Location where, EventPool& events, cudaStream_t stream);
  /// `end` was recorded after all that was added.
  void close(const Event& end);
  /// Forgets what the GPU has passed; returns how many operations that were, ever.
  std::uint64_t look(EventPool& events, cudaStream_t stream);
  /// As of the last look: "the last 17 operations, from matmul at gpt.cpp:81 (forward)", of which at least one is not
  /// done; empty when all are.
  std::string words() const;

 private:
  static constexpr std::uint64_t kPiece = 32;     // operations
  static constexpr std::size_t kManyPieces = 64;  // when it is time to forget
  struct Piece {
    const char* operation;  // its first
    Location where;
    std::uint64_t operations = 0;
    Event end;  // empty while it may grow
  };
  void forget();
  std::deque<Piece> pieces_;
  std::uint64_t passed_ = 0;
};

}  // namespace lockstep::cuda
