// A request of the page: the name of a view, and fields as in an address: "pipeline?p=4&m=8&text=F0%20B0".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/support/text/numbers.hpp"

namespace lockstep::playground {

class Request {
 public:
  /// "%20" stands for a space, as in addresses; "+" does not.
  explicit Request(std::string_view text) {
    const std::size_t question = text.find('?');
    view_ = text.substr(0, question);
    while (text.find_first_of("?&") != text.npos) {
      text.remove_prefix(text.find_first_of("?&") + 1);
      const std::string_view field = text.substr(0, text.find('&'));
      const std::size_t equal = field.find('=');
      if (equal == field.npos) throw Error(Verdict::usage, fmt::format("'{}' is no field: it lacks '='", field));
      fields_.push_back({std::string(field.substr(0, equal)), decoded(field.substr(equal + 1))});
    }
  }

  const std::string& view() const { return view_; }
  /// Throws Error(usage) for a field that is missing, or whose value is not within its limits.
  const std::string& text(std::string_view name) const {
    for (const Field& field : fields_)
      if (field.name == name) return field.value;
    throw Error(Verdict::usage, fmt::format("{}? lacks {}", view_, name));
  }
  double number(const std::string& name, double least, double most) const {
    return number_in(name, text(name), least, most);
  }
  int count(const std::string& name, int most) const { return count_in(name, text(name), most); }
  int whole(const std::string& name, int least, int most) const { return whole_in(name, text(name), least, most); }

 private:
  struct Field {
    std::string name, value;
  };

  static std::string decoded(std::string_view value) {
    const auto digit = [](char c) { return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10; };
    std::string out;
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (value[i] == '%' && i + 2 < value.size()) {
        out += static_cast<char>(16 * digit(value[i + 1]) + digit(value[i + 2]));
        i += 2;
      } else {
        out += value[i];
      }
    }
    return out;
  }

  std::string view_;
  std::vector<Field> fields_;
};

}  // namespace lockstep::playground
