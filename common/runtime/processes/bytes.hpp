// Serialises values to bytes that travel between the processes of a job, or of a grade. All run the same program, or
// one of the same headers.
//
// A structure lists its members once, for both directions: template <class Io> void fields(Io& io, T& t) { io(t.a,
// t.b); }, where T may be const. An aggregate of up to 6 members need not.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "common/error.hpp"
#include "common/support/text/members.hpp"

namespace lockstep::processes {

/// Means nothing in another process: an address, or what views memory.
template <class T>
concept OfThisProcess = std::is_pointer_v<T> || std::ranges::enable_view<T>;

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
    static_assert(!OfThisProcess<T>);
    if constexpr (std::is_trivially_copyable_v<T>)
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    else if constexpr (requires { fields(*this, value); })
      fields(*this, value);
    else
      with_members(value, [this](const auto&... members) { (put(members), ...); });
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
  template <class T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <class... T>
  void put(const std::variant<T...>& value) {
    put(value.index());
    std::visit([this](const auto& held) { put(held); }, value);
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
    static_assert(!OfThisProcess<T>);
    if constexpr (std::is_same_v<T, bool>) {
      char byte = 0;
      get(byte);
      if (byte != 0 && byte != 1) throw Error(Verdict::usage, "what was sent is damaged");
      value = byte == 1;
    } else if constexpr (std::is_trivially_copyable_v<T>) {
      need(sizeof value);
      std::memcpy(&value, bytes_.data() + at_, sizeof value);
      at_ += sizeof value;
    } else if constexpr (requires { fields(*this, value); }) {
      fields(*this, value);
    } else {
      with_members(value, [this](auto&... members) { (get(members), ...); });
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
  template <class T>
  void get(std::optional<T>& value) {
    bool there = false;
    get(there);
    value.reset();
    if (there) get(value.emplace());
  }
  template <class... T>
  void get(std::variant<T...>& value) {
    std::size_t index = 0, i = 0;
    get(index);
    if (index >= sizeof...(T)) throw Error(Verdict::usage, "what was sent is damaged");
    ((i++ == index ? get(value.template emplace<T>()) : void()), ...);
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
  if (!in.at_end()) throw Error(Verdict::usage, "what was sent ends too late");
}

}  // namespace lockstep::processes
