#include "common/nccl/pretend/work.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <deque>

namespace lockstep::pretend_nccl {

namespace {

/// Before the data of each message.
struct Header {
  std::uint64_t count = 0;
  std::int32_t type = 0;
};
constexpr char kTaken = '!';  // the receiver's answer

enum class Step { blocked, finished, lost, mismatch };

/// One message, moved on as far as its wire allows.
class Transfer {
 public:
  Transfer(const Operation& operation, int fd) : operation_(operation), fd_(fd) {
    header_ = {operation.count, operation.type};
  }
  int fd() const { return fd_; }
  int peer() const { return operation_.peer; }

  /// What the wire must be ready for.
  short events() const {
    const bool sends = operation_.kind == Operation::Kind::send;
    return sends == (stage_ != 2) ? POLLOUT : POLLIN;
  }

  Step advance() {
    const bool sends = operation_.kind == Operation::Kind::send;
    while (stage_ < 3) {
      const bool out = sends == (stage_ != 2);
      char* at = stage_ == 0 ? reinterpret_cast<char*>(&header_) : stage_ == 2 ? &answer_ : data();
      const std::size_t size = stage_ == 0 ? sizeof header_ : stage_ == 2 ? 1 : bytes();
      while (done_ < size) {
        const ssize_t moved = out ? send(fd_, at + done_, size - done_, MSG_NOSIGNAL | MSG_DONTWAIT)
                                  : recv(fd_, at + done_, size - done_, MSG_DONTWAIT);
        if (moved < 0 && errno == EINTR) continue;
        if (moved < 0 && errno == EAGAIN) return Step::blocked;
        if (moved <= 0) return Step::lost;
        done_ += static_cast<std::size_t>(moved);
      }
      if (stage_ == 0 && (header_.count != operation_.count || header_.type != operation_.type)) return Step::mismatch;
      ++stage_;
      done_ = 0;
    }
    return Step::finished;
  }

  std::string explain(int rank) const {
    auto side = [](std::uint64_t count, int type) {
      return std::to_string(count) + " elements of type " + std::to_string(type);
    };
    return "rank " + std::to_string(operation_.peer) + " sends " + side(header_.count, header_.type) + ", rank " +
           std::to_string(rank) + " receives " + side(operation_.count, operation_.type);
  }

 private:
  char* data() const {
    return operation_.kind == Operation::Kind::send ? const_cast<char*>(static_cast<const char*>(operation_.from))
                                                    : static_cast<char*>(operation_.to);
  }
  std::size_t bytes() const { return operation_.count * bytes_of(operation_.type); }

  Operation operation_;
  int fd_;
  int stage_ = 0;  // 0: header, 1: data, 2: answer
  std::size_t done_ = 0;
  Header header_;
  char answer_ = kTaken;
};

/// Transfers of one work. Of those to, or from, one peer only the first moves.
Ending transfer_all(const std::vector<Operation>& operations, int rank, const std::vector<Wires>& wires,
                    const StopFlag& stop, std::string& explanation) {
  std::vector<std::deque<Transfer>> lines(2 * wires.size());
  for (const Operation& operation : operations) {
    const bool sends = operation.kind == Operation::Kind::send;
    const Wires& of_peer = wires[operation.peer];
    lines[2 * operation.peer + (sends ? 0 : 1)].emplace_back(operation, sends ? of_peer.out.fd() : of_peer.in.fd());
  }
  while (true) {
    std::vector<pollfd> waits{{.fd = stop.fd(), .events = POLLIN, .revents = 0}};
    for (std::deque<Transfer>& line : lines) {
      while (!line.empty()) {
        const Step step = line.front().advance();
        if (step == Step::lost) return Ending::peer_lost;
        if (step == Step::mismatch) {
          explanation = line.front().explain(rank);
          return Ending::mismatch;
        }
        if (step == Step::blocked) break;
        line.pop_front();
      }
      if (!line.empty()) waits.push_back({.fd = line.front().fd(), .events = line.front().events(), .revents = 0});
    }
    if (waits.size() == 1) return Ending::done;
    if (poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) return Ending::peer_lost;
    if (waits[0].revents != 0) return Ending::stopped;
  }
}

/// Everyone's to rank 0, which adds up in order of rank, and back.
Ending all_reduce(const Operation& operation, int rank, const std::vector<Wires>& wires, const StopFlag& stop,
                  std::string& explanation) {
  const int ranks = static_cast<int>(wires.size());
  const float* mine = static_cast<const float*>(operation.from);
  float* result = static_cast<float*>(operation.to);
  std::vector<std::vector<float>> theirs(ranks);
  std::vector<Operation> there, back;
  auto message = [&](Operation::Kind kind, int peer, const void* from, void* to) {
    return Operation{kind, peer, from, to, operation.count, operation.type};
  };
  if (rank != 0) {
    there = {message(Operation::Kind::send, 0, mine, nullptr)};
    back = {message(Operation::Kind::receive, 0, nullptr, result)};
  }
  for (int peer = 1; peer < ranks && rank == 0; ++peer) {
    theirs[peer].resize(operation.count);
    there.push_back(message(Operation::Kind::receive, peer, nullptr, theirs[peer].data()));
    back.push_back(message(Operation::Kind::send, peer, result, nullptr));
  }
  const Ending ending = transfer_all(there, rank, wires, stop, explanation);
  if (ending != Ending::done) return ending;
  for (std::size_t i = 0; i < operation.count && rank == 0; ++i) {
    float sum = mine[i];
    for (int peer = 1; peer < ranks; ++peer) sum += theirs[peer][i];
    result[i] = sum;
  }
  return transfer_all(back, rank, wires, stop, explanation);
}

}  // namespace

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

Ending carry_out(const std::vector<Operation>& operations, int rank, const std::vector<Wires>& wires,
                 const StopFlag& stop, std::string& explanation) {
  if (!operations.empty() && operations.front().kind == Operation::Kind::all_reduce)
    return all_reduce(operations.front(), rank, wires, stop, explanation);
  return transfer_all(operations, rank, wires, stop, explanation);
}

}  // namespace lockstep::pretend_nccl
