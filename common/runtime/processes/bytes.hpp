// Serialises values to bytes that travel between the processes of a job, or of a grade. All run the same program, or
// one of the same headers.
//
// A structure lists its members once, for both directions: template <class Io> void fields(Io& io, T& t) { io(t.a,
// t.b); }, where T may be const.
#pragma once

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "common/error.hpp"

namespace lockstep::processes {

class Writer {
 public:
  template <class... T>
  void operator()(const T&... values) {
    (put(values), ...);
  }
  std::string bytes;

 private:
  template <class T>
  void put(const T& value) {
    if constexpr (std::is_trivially_copyable_v<T>)
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    else
      fields(*this, value);
  }
  void put(const std::string& text) {
    put(text.size());
    bytes += text;
  }
  template <class T>
  void put(const std::vector<T>& items) {
    put(items.size());
    for (const T& item : items) put(item);
  }
};

class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}
  /// Throws Error(usage) where the bytes end before the values do.
  template <class... T>
  void operator()(T&... values) {
    (get(values), ...);
  }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  template <class T>
  void get(T& value) {
    if constexpr (std::is_trivially_copyable_v<T>) {
      need(sizeof value);
      std::memcpy(&value, bytes_.data() + at_, sizeof value);
      at_ += sizeof value;
    } else {
      fields(*this, value);
    }
  }
  void get(std::string& text) {
    const auto size = get_size();
    text = bytes_.substr(at_, size);
    at_ += size;
  }
  template <class T>
  void get(std::vector<T>& items) {
    items.resize(get_size());
    for (T& item : items) get(item);
  }
  std::size_t get_size() {
    std::size_t size = 0;
    get(size);
    need(size);  // characters, or items of at least one byte
    return size;
  }
  void need(std::size_t size) const {
    if (size > bytes_.size() - at_) throw Error(Verdict::usage, "what was sent ends too early");
  }

  const std::string& bytes_;
  std::size_t at_ = 0;
};

template <class... T>
std::string to_bytes(const T&... values) {
  Writer out;
  out(values...);
  return out.bytes;
}

template <class... T>
void from_bytes(const std::string& bytes, T&... values) {
  Reader in(bytes);
  in(values...);
}

}  // namespace lockstep::processes
