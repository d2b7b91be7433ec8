#include "common/testing/fakes/nccl/wires.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace lockstep::fake_nccl {

namespace {

/// A name in Linux's abstract namespace: no file, so nothing to clean up.
struct Name {
  explicit Name(const std::string& text) {
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, text.data(), text.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  sockaddr_un address{};
  socklen_t length = 0;
};

/// Waits for `events`, or for the flag (then returns false).
bool wait_for(int fd, short events, const StopFlag& stop) {
  pollfd entries[] = {{.fd = fd, .events = events, .revents = 0}, {.fd = stop.fd(), .events = POLLIN, .revents = 0}};
  while (poll(entries, 2, -1) < 0)
    if (errno != EINTR) return false;
  return entries[1].revents == 0;
}

bool send_all(int fd, const void* data, std::size_t bytes, const StopFlag& stop) {
  for (const char* at = static_cast<const char*>(data); bytes > 0;) {
    if (!wait_for(fd, POLLOUT, stop)) return false;
    const ssize_t sent = ::send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (sent <= 0) return false;
    at += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int fd, void* data, std::size_t bytes, const StopFlag& stop) {
  for (char* at = static_cast<char*>(data); bytes > 0;) {
    if (!wait_for(fd, POLLIN, stop)) return false;
    const ssize_t got = ::recv(fd, at, bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

/// Identifies the connecting rank, and which of the three wires this is.
struct Greeting {
  std::int32_t rank = -1;
  std::int32_t which = 0;
};

Wire call(const std::string& name, Greeting greeting, const StopFlag& stop) {
  const Name address(name);
  while (!stop.raised()) {
    Wire wire(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(wire.fd(), address.get(), address.length) == 0)
      return send_all(wire.fd(), &greeting, sizeof greeting, stop) ? std::move(wire) : Wire();
    usleep(500);  // the peer does not listen yet
  }
  return {};
}

}  // namespace

Wire::~Wire() {
  if (fd_ >= 0) close(fd_);
}

StopFlag::StopFlag() : wire_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void StopFlag::raise() {
  const std::uint64_t one = 1;
  (void)!write(wire_.fd(), &one, sizeof one);
}

bool StopFlag::raised() const {
  pollfd entry{.fd = wire_.fd(), .events = POLLIN, .revents = 0};
  return poll(&entry, 1, 0) > 0;
}

bool connect_all(const std::string& name, int rank, int ranks, const StopFlag& stop, std::vector<Wires>& wires) {
  wires.resize(ranks);
  auto of = [&](int who) { return name + "." + std::to_string(who); };
  const Wire listening(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Name mine(of(rank));
  if (bind(listening.fd(), mine.get(), mine.length) != 0 || listen(listening.fd(), SOMAXCONN) != 0) return false;
  // The lower rank of a pair listens. The caller's `out` is the listener's `in`.
  for (int peer = 0; peer < rank; ++peer) {
    wires[peer].out = call(of(peer), {rank, 0}, stop);
    wires[peer].in = call(of(peer), {rank, 1}, stop);
    wires[peer].set_up = call(of(peer), {rank, 2}, stop);
    if (!wires[peer].out || !wires[peer].in || !wires[peer].set_up) return false;
  }
  for (int expected = 3 * (ranks - 1 - rank); expected > 0; --expected) {
    if (!wait_for(listening.fd(), POLLIN, stop)) return false;
    Wire wire(accept4(listening.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    Greeting greeting;
    if (!wire || !receive_all(wire.fd(), &greeting, sizeof greeting, stop)) return false;
    Wires& of_peer = wires.at(greeting.rank);
    (greeting.which == 0 ? of_peer.in : greeting.which == 1 ? of_peer.out : of_peer.set_up) = std::move(wire);
  }
  return true;
}

bool all_gather(int rank, const std::vector<Wires>& wires, const StopFlag& stop, const void* mine, std::size_t bytes,
                std::vector<char>& all) {
  const int ranks = static_cast<int>(wires.size());
  all.resize(bytes * ranks);
  std::memcpy(all.data() + bytes * rank, mine, bytes);
  for (int peer = 0; peer < ranks; ++peer)  // small enough for the sockets' buffers
    if (peer != rank && !send_all(wires[peer].set_up.fd(), mine, bytes, stop)) return false;
  for (int peer = 0; peer < ranks; ++peer)
    if (peer != rank && !receive_all(wires[peer].set_up.fd(), all.data() + bytes * peer, bytes, stop)) return false;
  return true;
}

}  // namespace lockstep::fake_nccl
