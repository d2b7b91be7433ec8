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

std::string Letter::bytes() const {
  std::string bytes(reinterpret_cast<const char*>(this), offsetof(Letter, text));
  append(bytes, text);
  append(bytes, begun);
  append(bytes, unfinished);
  return bytes;
}

Letter Letter::parse(const std::string& bytes) {
  Letter letter;
  std::memcpy(static_cast<void*>(&letter), bytes.data(), offsetof(Letter, text));
  const char* at = bytes.data() + offsetof(Letter, text);
  take(at, letter.text);
  take(at, letter.begun);
  take(at, letter.unfinished);
  return letter;
}

}  // namespace lockstep::processes
