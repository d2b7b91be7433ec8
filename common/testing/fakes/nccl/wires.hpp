// The fake NCCL's connections: Unix sockets between the processes of one communicator, on one host.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::fake_nccl {

/// Owns a file descriptor.
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

/// The connections from one rank to one peer. On a wire data goes in one direction and its acknowledgements in the
/// other, so that neither waits behind data that has not been requested yet.
struct Wires {
  Wire out;     // data that this rank sends
  Wire in;      // data that it receives
  Wire set_up;  // messages of split; never blocked by data
};

/// Raised to abort the communicator; every wait checks it.
class StopFlag {
 public:
  StopFlag();
  void raise();
  bool raised() const;
  int fd() const { return wire_.fd(); }  // readable once raised

 private:
  Wire wire_;
};

/// Collective: `name` identifies the communicator. Returns false if it is stopped, or if a process does not connect.
bool connect_all(const std::string& name, int rank, int ranks, const StopFlag& stop, std::vector<Wires>& wires);

/// Gathers a fixed-size record of every rank, by rank, over the set_up wires.
bool all_gather(int rank, const std::vector<Wires>& wires, const StopFlag& stop, const void* mine, std::size_t bytes,
                std::vector<char>& all);

}  // namespace lockstep::fake_nccl
