// TCP, as much of it as the runtime's own messages need.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::nccl {

/// A connected or listening socket, closed at its end.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();
  explicit operator bool() const { return fd_ >= 0; }
  int fd() const { return fd_; }

  /// All bytes, or false where the other end has gone.
  bool send(const void* data, std::size_t bytes) const;
  bool receive(void* data, std::size_t bytes) const;
  /// With their length before them.
  bool send_text(const std::string& text) const;
  bool receive_text(std::string& text) const;
  /// From now on receive gives up after `seconds` of silence; 0: never.
  void wait_at_most(int seconds) const;
  /// The other end's receive ends when it has all that was sent.
  void shut_down_sending() const;

 private:
  int fd_ = -1;
};

/// Listens on every interface; port 0: any free one. Throws Error(fail) with the system's words.
Socket listen_at(int port);
int port_of(const Socket& listening);
/// Waits up to `seconds` for somebody; an empty Socket when nobody comes.
Socket accept_from(const Socket& listening, double seconds);
/// One attempt, up to `seconds`; an empty Socket where it fails.
Socket connect_to(const std::string& host, int port, double seconds);

/// Whether NCCL_SOCKET_IFNAME's `list` names the network `interface`: "ib,eth1" by how it begins, "=ib0" exactly, and
/// "^docker,lo" all others.
bool is_named(std::string_view interface, std::string_view list);
/// This host's IPv4 addresses that others may reach, those of NCCL_SOCKET_IFNAME's interfaces first, loopback last.
std::vector<std::string> addresses_of_this_host();
std::string host_name();

}  // namespace lockstep::nccl
