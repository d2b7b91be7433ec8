// The fake NCCL's connections: Unix sockets between the processes of one communicator, on one host.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::fake_nccl {

/// A file descriptor, closed at its end.
class Wire {
 public:
  Wire() = default;
  explicit Wire(int fd) : fd_(fd) {}
  Wire(Wire&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Wire& operator=(Wire&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Wire();
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// From one rank to one peer. Data goes one way on a wire, its acknowledgements the other way, so that neither waits
/// behind data that nobody has asked for yet.
struct Wires {
  Wire out;     // what this rank sends
  Wire in;      // what it receives
  Wire set_up;  // what split says; never busy with data
};

/// Raised by whoever aborts the communicator; everything that waits looks at it.
class StopFlag {
 public:
  StopFlag();
  void raise();
  bool raised() const;
  int fd() const { return wire_.fd(); }  // readable once raised

 private:
  Wire wire_;
};

/// Collective: `name` is the communicator's own. False where stopped, or where a process does not come.
bool connect_all(const std::string& name, int rank, int ranks, const StopFlag& stop, std::vector<Wires>& wires);

/// On set_up wires: everyone's fixed-size record, by rank.
bool all_gather(int rank, const std::vector<Wires>& wires, const StopFlag& stop, const void* mine, std::size_t bytes,
                std::vector<char>& all);

}  // namespace lockstep::fake_nccl
