#include "common/devices/cuda/backlog.hpp"

#include <fmt/format.h>

namespace lockstep::cuda {

void Backlog::add(const char* operation, Location where, EventPool& events, cudaStream_t stream) {
  if (pieces_.empty() || pieces_.back().end) pieces_.push_back({operation, where});
  if (++pieces_.back().operations == kPiece) close(events.record(stream));
}

void Backlog::close(const Event& end) {
  if (!pieces_.empty() && !pieces_.back().end) pieces_.back().end = end;
  if (pieces_.size() > kManyPieces) forget();
}

std::uint64_t Backlog::look(EventPool& events, cudaStream_t stream) {
  if (!pieces_.empty() && !pieces_.back().end) close(events.record(stream));
  forget();
  return passed_;
}

void Backlog::forget() {
  while (!pieces_.empty() && pieces_.front().end && pieces_.front().end.done()) {
    passed_ += pieces_.front().operations;
    pieces_.pop_front();
  }
}

std::string Backlog::words() const {
  if (pieces_.empty()) return "";
  std::uint64_t left = 0;
  for (const Piece& piece : pieces_) left += piece.operations;
  const Piece& first = pieces_.front();
  const std::string which = left == 1 ? "the last operation" : fmt::format("the last {} operations", left);
  return fmt::format("{}, from {} at {}", which, first.operation, describe(first.where));
}

}  // namespace lockstep::cuda
