#include "common/testing/fakes/nccl/work.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
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

/// True if this rank sends. The receiver's answer goes in the other direction.
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
  const Operation first = operations.empty() ? Operation{} : operations.front();
  switch (first.kind) {
    case Operation::Kind::all_reduce: begin_all_reduce(first); break;
    case Operation::Kind::reduce_scatter: begin_reduce_scatter(first); break;
    case Operation::Kind::all_gather: begin_all_gather(first); break;
    case Operation::Kind::broadcast: begin_broadcast(first); break;
    default: queue(operations);
  }
}

void Work::queue(const std::vector<Operation>& operations) {
  for (const Operation& operation : operations) {
    const bool sends = operation.kind == Operation::Kind::send;
    if (operation.peer == rank_) {
      (sends ? to_self_ : from_self_).push_back(operation);
      continue;
    }
    const Wires& of_peer = wires_[operation.peer];
    lines_[2 * operation.peer + (sends ? 0 : 1)].emplace_back(operation, sends ? of_peer.out.fd() : of_peer.in.fd());
  }
}

/// In a group, the k-th send to itself is matched with the k-th receive.
void Work::copy_own() {
  for (std::size_t i = 0; i < to_self_.size() && i < from_self_.size(); ++i)
    std::memmove(from_self_[i].to, to_self_[i].from, to_self_[i].count * bytes_of(to_self_[i].type));
  to_self_.clear();
  from_self_.clear();
}

Ending Work::advance() {
  if (to_self_.size() != from_self_.size()) {
    explanation_ =
        "rank " + std::to_string(rank_) + " sends to itself what it does not receive, or the other way round";
    return Ending::mismatch;
  }
  copy_own();
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
  if (std::exchange(adds_, false)) add_up();
  if (back_.empty()) return Ending::done;
  queue(std::exchange(back_, {}));
  return advance();
}

void Work::begin_all_reduce(const Operation& operation) {
  reduce_ = operation;
  adds_ = rank_ == 0;
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

/// Everyone's chunk r goes to rank r.
void Work::begin_reduce_scatter(const Operation& operation) {
  reduce_ = operation;
  adds_ = true;
  const auto* from = static_cast<const float*>(operation.from);
  reduce_.from = from + static_cast<std::size_t>(rank_) * operation.count;
  theirs_.resize(wires_.size());
  std::vector<Operation> messages;
  for (int peer = 0; peer < static_cast<int>(wires_.size()); ++peer) {
    if (peer == rank_) continue;
    theirs_[peer].resize(operation.count);
    const float* chunk = from + static_cast<std::size_t>(peer) * operation.count;
    messages.push_back({Operation::Kind::send, peer, chunk, nullptr, operation.count, operation.type});
    messages.push_back(
        {Operation::Kind::receive, peer, nullptr, theirs_[peer].data(), operation.count, operation.type});
  }
  queue(messages);
}

void Work::begin_all_gather(const Operation& operation) {
  std::vector<Operation> messages;
  for (int peer = 0; peer < static_cast<int>(wires_.size()); ++peer) {
    char* chunk =
        static_cast<char*>(operation.to) + static_cast<std::size_t>(peer) * operation.count * bytes_of(operation.type);
    messages.push_back({Operation::Kind::send, peer, operation.from, nullptr, operation.count, operation.type});
    messages.push_back({Operation::Kind::receive, peer, nullptr, chunk, operation.count, operation.type});
  }
  queue(messages);
}

void Work::begin_broadcast(const Operation& operation) {
  const int root = operation.peer;
  std::vector<Operation> messages;
  if (rank_ == root)
    for (int peer = 0; peer < static_cast<int>(wires_.size()); ++peer)
      messages.push_back({Operation::Kind::send, peer, operation.from, nullptr, operation.count, operation.type});
  messages.push_back({Operation::Kind::receive, root, nullptr, operation.to, operation.count, operation.type});
  queue(messages);
}

void Work::add_up() {
  const float* mine = static_cast<const float*>(reduce_.from);
  float* result = static_cast<float*>(reduce_.to);
  for (std::size_t i = 0; i < reduce_.count; ++i) {
    float sum = 0;
    for (std::size_t rank = 0; rank < theirs_.size(); ++rank)
      sum += static_cast<int>(rank) == rank_ ? mine[i] : theirs_[rank][i];
    result[i] = sum;
  }
}

}  // namespace lockstep::fake_nccl
