// Messages between a rank of MPI and the process that runs Gloo for it, over a pair of sockets.
#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace lockstep::bench {

/// Messages from Gloo's process: one of its addresses (key and value), answered with those of all ranks; at the end,
/// whether its sum was correct and the seconds of its samples, or an error message.
enum class GlooMessage : std::uint64_t { address, samples, error };

inline void write_bytes(int socket, const void* bytes, std::size_t size) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t now = send(socket, static_cast<const char*>(bytes) + done, size - done, MSG_NOSIGNAL);
    if (now < 0 && errno != EINTR) throw std::runtime_error("the other process ended");
    done += now > 0 ? static_cast<std::size_t>(now) : 0;
  }
}
inline void read_bytes(int socket, void* bytes, std::size_t size) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t now = recv(socket, static_cast<char*>(bytes) + done, size - done, 0);
    if (now == 0 || (now < 0 && errno != EINTR)) throw std::runtime_error("the other process ended");
    done += now > 0 ? static_cast<std::size_t>(now) : 0;
  }
}

inline void write_number(int socket, std::uint64_t number) { write_bytes(socket, &number, sizeof number); }
inline std::uint64_t read_number(int socket) {
  std::uint64_t number = 0;
  read_bytes(socket, &number, sizeof number);
  return number;
}
inline void write_message(int socket, GlooMessage message) {
  write_number(socket, static_cast<std::uint64_t>(message));
}

inline void write_text(int socket, const std::string& text) {
  write_number(socket, text.size());
  write_bytes(socket, text.data(), text.size());
}
inline std::string read_text(int socket) {
  std::string text(read_number(socket), '\0');
  read_bytes(socket, text.data(), text.size());
  return text;
}

}  // namespace lockstep::bench
