#include "common/backends/nccl/socket.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "common/error.hpp"

namespace lockstep::nccl {

namespace {

int milliseconds(double seconds) { return static_cast<int>(std::max(1.0, seconds * 1000)); }

void hurry(int fd) {
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

bool wait_for(int fd, short events, double seconds) {
  pollfd entry{.fd = fd, .events = events, .revents = 0};
  int ready = 0;
  while ((ready = poll(&entry, 1, milliseconds(seconds))) < 0 && errno == EINTR) {
  }
  return ready > 0;
}

/// Connects without blocking for longer than `seconds`; a host that drops packets would otherwise block for minutes.
bool connect_within(int fd, const sockaddr* address, socklen_t length, double seconds) {
  const int flags = fcntl(fd, F_GETFL);
  fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  if (connect(fd, address, length) != 0) {
    if (errno != EINPROGRESS || !wait_for(fd, POLLOUT, seconds)) return false;
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) return false;
  }
  fcntl(fd, F_SETFL, flags);
  return true;
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

bool Socket::send(const void* data, std::size_t bytes) const {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(fd_, from, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    from += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool Socket::receive(void* data, std::size_t bytes) const {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::recv(fd_, to, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool Socket::send_text(const std::string& text) const {
  const std::uint64_t length = text.size();
  return send(&length, sizeof length) && send(text.data(), text.size());
}

bool Socket::receive_text(std::string& text) const {
  constexpr std::uint64_t kMost = 1ull << 32;  // a larger announcement means another protocol
  std::uint64_t length = 0;
  if (!receive(&length, sizeof length) || length > kMost) return false;
  text.resize(length);
  return receive(text.data(), length);
}

void Socket::wait_at_most(int seconds) const {
  const timeval limit{.tv_sec = seconds, .tv_usec = 0};
  if (fd_ >= 0) setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}
void Socket::shut_down_sending() const { shutdown(fd_, SHUT_WR); }

Socket listen_at(int port) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int one = 1;
  setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  if (bind(socket.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      listen(socket.fd(), SOMAXCONN) != 0)
    throw Error(Verdict::fail,
                fmt::format("cannot listen on port {} of {}: {}", port, host_name(), std::strerror(errno)));
  return socket;
}

int port_of(const Socket& listening) {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  getsockname(listening.fd(), reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.sin_port);
}

Socket accept_from(const Socket& listening, double seconds) {
  if (!wait_for(listening.fd(), POLLIN, seconds)) return {};
  const int fd = accept4(listening.fd(), nullptr, nullptr, SOCK_CLOEXEC);
  if (fd >= 0) hurry(fd);
  return Socket(fd);
}

Socket connect_to(const std::string& host, int port, double seconds) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, freeaddrinfo);
  for (const addrinfo* each = found; each; each = each->ai_next) {
    Socket socket(::socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC, each->ai_protocol));
    if (!connect_within(socket.fd(), each->ai_addr, each->ai_addrlen, seconds)) continue;
    hurry(socket.fd());
    return socket;
  }
  return {};
}

bool is_named(std::string_view interface, std::string_view list) {
  const bool forbids = list.starts_with('^');
  if (forbids) list.remove_prefix(1);
  const bool exactly = list.starts_with('=');
  if (exactly) list.remove_prefix(1);
  while (!list.empty()) {
    const std::string_view name = list.substr(0, list.find(','));
    list.remove_prefix(std::min(name.size() + 1, list.size()));
    if (!name.empty() && (exactly ? interface == name : interface.starts_with(name))) return !forbids;
  }
  return forbids;
}

std::vector<std::string> addresses_of_this_host() {
  struct Found {
    int order;
    std::string address;
  };
  std::vector<Found> found;
  const char* wanted = std::getenv("NCCL_SOCKET_IFNAME");
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return {"127.0.0.1"};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(first, freeifaddrs);
  for (const ifaddrs* each = first; each; each = each->ifa_next) {
    if (!each->ifa_addr || each->ifa_addr->sa_family != AF_INET || !(each->ifa_flags & IFF_UP)) continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr, text.data(), text.size());
    const bool loopback = (each->ifa_flags & IFF_LOOPBACK) != 0;
    const bool preferred = wanted && is_named(each->ifa_name, wanted);
    found.push_back({loopback ? 2 : preferred ? 0 : 1, text.data()});
  }
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.order < b.order; });
  std::vector<std::string> addresses;
  for (Found& each : found) addresses.push_back(std::move(each.address));
  return addresses;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "?";
  return name.data();
}

}  // namespace lockstep::nccl
