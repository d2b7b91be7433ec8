// Values as bytes, to travel between the processes of a job, which are one program.
#pragma once

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

namespace lockstep::processes {

class Writer {
 public:
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void put(const T& value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void put(const std::string& text) {
    put(text.size());
    bytes += text;
  }
  template <class T, class F>
  void each(const std::vector<T>& items, F f) {
    put(items.size());
    for (const T& item : items) f(item);
  }
  std::string bytes;
};

class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void get(T& value) {
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
  }
  void get(std::string& text) {
    std::size_t size = 0;
    get(size);
    text = bytes_.substr(at_, size);
    at_ += size;
  }
  template <class T, class F>
  void each(std::vector<T>& items, F f) {
    std::size_t size = 0;
    get(size);
    items.resize(size);
    for (T& item : items) f(item);
  }

 private:
  const std::string& bytes_;
  std::size_t at_ = 0;
};

}  // namespace lockstep::processes
