#include "common/testing/fakes/nccl/work.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <utility>

namespace lockstep::fake_nccl {

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    default: return 8;
  }
}

// Messages ------------------------------------------------------------------------------------------------------------

Message::Message(const Operation& operation, int fd) : operation_(operation), fd_(fd) {
  header_ = {operation.count, operation.type};
}

/// The receiver's answer goes the other way.
bool Message::outward() const { return (operation_.kind == Operation::Kind::send) != (stage_ == Stage::answer); }

Ending Message::advance() {
  const bool sends = operation_.kind == Operation::Kind::send;
  while (stage_ != Stage::over) {
    char* at = sends ? const_cast<char*>(static_cast<const char*>(operation_.from)) : static_cast<char*>(operation_.to);
    std::size_t size = operation_.count * bytes_of(operation_.type);
    if (stage_ != Stage::data) {
      at = stage_ == Stage::header ? reinterpret_cast<char*>(&header_) : &answer_;
      size = stage_ == Stage::header ? sizeof header_ : 1;
    }
    while (done_ < size) {
      const ssize_t moved = outward() ? ::send(fd_, at + done_, size - done_, MSG_NOSIGNAL | MSG_DONTWAIT)
                                      : ::recv(fd_, at + done_, size - done_, MSG_DONTWAIT);
      if (moved < 0 && errno == EINTR) continue;
      if (moved < 0 && errno == EAGAIN) return Ending::not_yet;
      if (moved <= 0) return Ending::peer_lost;
      done_ += static_cast<std::size_t>(moved);
    }
    if (stage_ == Stage::header && (header_.count != operation_.count || header_.type != operation_.type))
      return Ending::mismatch;
    stage_ = static_cast<Stage>(static_cast<int>(stage_) + 1);
    done_ = 0;
  }
  return Ending::done;
}

std::string Message::explain(int rank) const {
  auto side = [](std::uint64_t count, int type) {
    return std::to_string(count) + " elements of type " + std::to_string(type);
  };
  return "rank " + std::to_string(operation_.peer) + " sends " + side(header_.count, header_.type) + ", rank " +
         std::to_string(rank) + " receives " + side(operation_.count, operation_.type);
}

// Works ---------------------------------------------------------------------------------------------------------------

Work::Work(std::vector<Operation> operations, int rank, const std::vector<Wires>& wires)
    : rank_(rank), wires_(wires), lines_(2 * wires.size()) {
  if (!operations.empty() && operations.front().kind == Operation::Kind::all_reduce)
    begin_all_reduce(operations.front());
  else
    queue(operations);
}

void Work::queue(const std::vector<Operation>& operations) {
  for (const Operation& operation : operations) {
    const bool sends = operation.kind == Operation::Kind::send;
    const Wires& of_peer = wires_[operation.peer];
    lines_[2 * operation.peer + (sends ? 0 : 1)].emplace_back(operation, sends ? of_peer.out.fd() : of_peer.in.fd());
  }
}

Ending Work::advance() {
  bool all = true;
  for (std::deque<Message>& line : lines_) {
    while (!line.empty()) {
      const Ending ending = line.front().advance();
      if (ending == Ending::mismatch) explanation_ = line.front().explain(rank_);
      if (ending == Ending::mismatch || ending == Ending::peer_lost) return ending;
      if (ending == Ending::not_yet) break;
      line.pop_front();
    }
    all = all && line.empty();
  }
  if (!all) return Ending::not_yet;
  if (back_.empty()) return Ending::done;
  add_up();
  queue(std::exchange(back_, {}));
  return advance();
}

void Work::begin_all_reduce(const Operation& operation) {
  reduce_ = operation;
  const int ranks = static_cast<int>(wires_.size());
  theirs_.resize(ranks);
  std::vector<Operation> there;
  auto message = [&](Operation::Kind kind, int peer, const void* from, void* to) {
    return Operation{kind, peer, from, to, operation.count, operation.type};
  };
  if (rank_ != 0) {
    there = {message(Operation::Kind::send, 0, operation.from, nullptr)};
    back_ = {message(Operation::Kind::receive, 0, nullptr, operation.to)};
  }
  for (int peer = 1; peer < ranks && rank_ == 0; ++peer) {
    theirs_[peer].resize(operation.count);
    there.push_back(message(Operation::Kind::receive, peer, nullptr, theirs_[peer].data()));
    back_.push_back(message(Operation::Kind::send, peer, operation.to, nullptr));
  }
  queue(there);
}

void Work::add_up() {
  if (rank_ != 0) return;
  const float* mine = static_cast<const float*>(reduce_.from);
  float* result = static_cast<float*>(reduce_.to);
  for (std::size_t i = 0; i < reduce_.count; ++i) {
    float sum = mine[i];
    for (std::size_t peer = 1; peer < theirs_.size(); ++peer) sum += theirs_[peer][i];
    result[i] = sum;
  }
}

}  // namespace lockstep::fake_nccl
