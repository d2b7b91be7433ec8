// The work of one communicator between ncclGroupStart and ncclGroupEnd: all its transfers progress together, and it
// ends with the last. A send ends when its receiver has everything, so an order that works only with buffers hangs.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "common/testing/fakes/nccl/wires.hpp"

namespace lockstep::fake_nccl {

struct Operation {
  enum class Kind { send, receive, all_reduce, reduce_scatter, all_gather, broadcast };
  Kind kind = Kind::send;
  int peer = -1;  // root of a broadcast, −1 for other collectives
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;  // as in NCCL: received elements of a reduce-scatter, sent elements of an all-gather
  ncclDataType_t type = ncclFloat32;
};

enum class Ending { not_yet, done, peer_lost, mismatch };

std::size_t bytes_of(ncclDataType_t type);

/// One message, advanced as far as its wire allows.
class Message {
 public:
  Message(const Operation& operation, int fd);
  Ending advance();
  std::string explain(int rank) const;

 private:
  /// Sent before the data.
  struct Header {
    std::uint64_t count = 0;
    std::int32_t type = 0;
  };
  enum class Stage { header, data, answer, over };
  bool outward() const;
  Operation operation_;
  int fd_;
  Stage stage_ = Stage::header;
  std::size_t done_ = 0;  // bytes done in this stage
  Header header_;
  char answer_ = '!';
};

class Work {
 public:
  Work(std::vector<Operation> operations, int rank, const std::vector<Wires>& wires);
  /// Advances as far as it can without waiting.
  Ending advance();
  /// Describes how the two ends of a message disagree; NCCL would hang or corrupt memory.
  const std::string& explanation() const { return explanation_; }

 private:
  void queue(const std::vector<Operation>& operations);
  void begin_all_reduce(const Operation& operation);
  void begin_reduce_scatter(const Operation& operation);
  void begin_all_gather(const Operation& operation);
  void begin_broadcast(const Operation& operation);
  void copy_own();
  void add_up();

  int rank_;
  const std::vector<Wires>& wires_;
  std::vector<std::deque<Message>> lines_;  // to and from each peer: only the first makes progress
  std::string explanation_;
  std::vector<Operation> to_self_, from_self_;  // this rank's sends to itself and the matching receives
  // Sums everyone's data in order of rank: for an all-reduce on rank 0, which sends the result back; for a
  // reduce-scatter on each rank.
  bool adds_ = false;
  Operation reduce_;  // `from` is this rank's contribution
  std::vector<std::vector<float>> theirs_;
  std::vector<Operation> back_;
};

}  // namespace lockstep::fake_nccl
