// The part of TCP that the runtime's own messages need.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::nccl {

/// A connected or listening socket, closed on destruction.
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

  /// Transfers all bytes; false if the other end has gone.
  bool send(const void* data, std::size_t bytes) const;
  bool receive(void* data, std::size_t bytes) const;
  /// Transfers a text, preceded by its length.
  bool send_text(const std::string& text) const;
  bool receive_text(std::string& text) const;
  /// Makes receive give up after `seconds` of silence; 0: never.
  void wait_at_most(int seconds) const;
  /// Ends the other end's receive once it has everything that was sent.
  void shut_down_sending() const;

 private:
  int fd_ = -1;
};

/// Listens on every interface; port 0 means any free one. Throws Error(fail) with the system's message.
Socket listen_at(int port);
int port_of(const Socket& listening);
/// Accepts a connection within `seconds`; an empty Socket if there is none.
Socket accept_from(const Socket& listening, double seconds);
/// Makes one attempt to connect, for up to `seconds`; an empty Socket if it fails.
Socket connect_to(const std::string& host, int port, double seconds);

/// True if NCCL_SOCKET_IFNAME's `list` names the network `interface`: "ib,eth1" matches prefixes, "=ib0" exact names,
/// and "^docker,lo" everything else.
bool is_named(std::string_view interface, std::string_view list);
/// This host's IPv4 addresses that others may reach: first those of NCCL_SOCKET_IFNAME's interfaces, loopback last.
std::vector<std::string> addresses_of_this_host();
std::string host_name();

}  // namespace lockstep::nccl
