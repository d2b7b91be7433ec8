// What one communicator does between ncclGroupStart and ncclGroupEnd: all its transfers progress together, and the work
// ends when the last has. A send ends when its receiver has everything, so an order that only a buffer would forgive
// hangs.
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
  int peer = -1;  // of a broadcast its root, of other collectives −1
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;  // as NCCL counts: of a reduce-scatter received, of an all-gather sent
  ncclDataType_t type = ncclFloat32;
};

enum class Ending { not_yet, done, peer_lost, mismatch };

std::size_t bytes_of(ncclDataType_t type);

/// One message, moved on as far as its wire allows.
class Message {
 public:
  Message(const Operation& operation, int fd);
  Ending advance();
  std::string explain(int rank) const;

 private:
  /// Before the data.
  struct Header {
    std::uint64_t count = 0;
    std::int32_t type = 0;
  };
  enum class Stage { header, data, answer, over };
  bool outward() const;
  Operation operation_;
  int fd_;
  Stage stage_ = Stage::header;
  std::size_t done_ = 0;  // bytes of the stage
  Header header_;
  char answer_ = '!';
};

class Work {
 public:
  Work(std::vector<Operation> operations, int rank, const std::vector<Wires>& wires);
  /// Goes on as far as it can without waiting.
  Ending advance();
  /// Where the two ends of a message disagree, which NCCL would answer with a hang or wrong memory.
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
  std::vector<std::deque<Message>> lines_;  // to, and from, each peer: only the first moves
  std::string explanation_;
  std::vector<Operation> to_self_, from_self_;  // sends and receives of this rank's own, pair by pair
  // Sums, of everyone's in order of rank: of an all-reduce on rank 0, which sends them back; of a reduce-scatter on
  // each.
  bool adds_ = false;
  Operation reduce_;  // `from` is what this rank adds
  std::vector<std::vector<float>> theirs_;
  std::vector<Operation> back_;
};

}  // namespace lockstep::fake_nccl
