#include <cstddef>
#include <cstring>

#include "common/runtime/processes/watch.hpp"

namespace lockstep::processes {

namespace {
template <class List>
void append(std::string& bytes, const List& list) {
  const std::uint64_t size = list.size();
  bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
  bytes.append(reinterpret_cast<const char*>(list.data()), size * sizeof list[0]);
}

template <class List>
void take(const char*& at, List& list) {
  std::uint64_t size = 0;
  std::memcpy(&size, at, sizeof size);
  list.resize(size);
  std::memcpy(static_cast<void*>(list.data()), at + sizeof size, size * sizeof list[0]);
  at += sizeof size + size * sizeof list[0];
}
}  // namespace

std::string ControlMessage::bytes() const {
  std::string bytes(reinterpret_cast<const char*>(this), offsetof(ControlMessage, text));
  append(bytes, text);
  append(bytes, begun);
  append(bytes, unfinished);
  return bytes;
}

ControlMessage ControlMessage::parse(const std::string& bytes) {
  ControlMessage message;
  std::memcpy(static_cast<void*>(&message), bytes.data(), offsetof(ControlMessage, text));
  const char* at = bytes.data() + offsetof(ControlMessage, text);
  take(at, message.text);
  take(at, message.begun);
  take(at, message.unfinished);
  return message;
}

}  // namespace lockstep::processes
