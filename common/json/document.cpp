#include "common/json/document.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <istream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "common/json/escape.hpp"

namespace lockstep {
namespace {

using Library = nlohmann::json;

[[noreturn]] void refuse(const Json& json, const char* wanted) {
  throw JsonError(fmt::format("{} is not {}", json.dump(), wanted));
}

/// The library's words, without the name of its exception in brackets before them.
std::string in_words(std::string_view what) {
  const std::size_t bracket = what.find("] ");
  return std::string(bracket == what.npos ? what : what.substr(bracket + 2));
}

}  // namespace

/// Told by the library's parser what it comes to.
class JsonBuilder {
 public:
  explicit JsonBuilder(int depth = -1, const std::function<void(const Json&)>* take = nullptr)
      : depth_(depth), take_(take) {}

  bool null() { return put(Json()); }
  bool boolean(bool value) { return put(make(Json::Kind::truth, 0, value)); }
  bool number_integer(std::int64_t value) {
    return put(make(Json::Kind::whole, static_cast<double>(value), static_cast<std::uint64_t>(value)));
  }
  bool number_unsigned(std::uint64_t value) { return put(make(Json::Kind::whole, static_cast<double>(value), value)); }
  bool number_float(double value, const std::string&) { return put(make(Json::Kind::real, value, 0)); }
  bool string(std::string& value) {
    Json json = make(Json::Kind::text, 0, 0);
    json.text_ = std::move(value);
    return put(std::move(json));
  }
  bool binary(Library::binary_t&) { return false; }  // not in texts

  bool start_object(std::size_t) { return open(Json::Kind::object); }
  bool start_array(std::size_t) { return open(Json::Kind::list); }
  bool key(std::string& name) {
    open_.back().name = std::move(name);
    return true;
  }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) {
    throw JsonError(in_words(error.what()));
  }

  static Json make(Json::Kind kind, double number, std::uint64_t whole) {
    Json json;
    json.kind_ = kind;
    json.number_ = number;
    json.whole_ = whole;
    return json;
  }

  Json result;

 private:
  struct Open {
    Json json;
    std::string name;  // of the member that comes next
  };

  bool open(Json::Kind kind) {
    open_.push_back({make(kind, 0, 0), ""});
    return true;
  }

  bool close() {
    Json whole = std::move(open_.back().json);
    open_.pop_back();
    if (take_ && whole.is_object() && static_cast<int>(open_.size()) == depth_)
      (*take_)(whole);
    else
      put(std::move(whole));
    return true;
  }

  bool put(Json json) {
    if (open_.empty())
      result = std::move(json);
    else if (Open& in = open_.back(); in.json.is_array())
      in.json.list_.push_back(std::move(json));
    else
      in.json.members_.push_back({std::move(in.name), std::move(json)});
    return true;
  }

  int depth_;
  const std::function<void(const Json&)>* take_;
  std::vector<Open> open_;  // outermost first
};

namespace {

std::string all_of(std::istream& in) { return {std::istreambuf_iterator<char>(in), {}}; }

/// The one call of the library's parser, a second of compilation each.
Json build(JsonBuilder builder, const std::string& text, bool ignore_comments = false) {
  Library::sax_parse(text.data(), text.data() + text.size(), &builder, Library::input_format_t::json, /*strict=*/true,
                     ignore_comments);
  return std::move(builder.result);
}

}  // namespace

Json Json::parse(const std::string& text) { return build(JsonBuilder(), text); }
Json Json::parse(std::istream& in) { return parse(all_of(in)); }

std::optional<Json> Json::parse_if_valid(const std::string& text) {
  try {
    return build(JsonBuilder(), text, /*ignore_comments=*/true);
  } catch (const JsonError&) {
    return std::nullopt;
  }
}

Json Json::parse(std::istream& in, int depth, const std::function<void(const Json&)>& take) {
  return build(JsonBuilder(depth, &take), all_of(in));
}

std::size_t Json::size() const {
  if (is_object()) return members_.size();
  if (!is_array()) refuse(*this, "a list");
  return list_.size();
}

const Json& Json::at(std::size_t index) const {
  if (!is_array()) refuse(*this, "a list");
  if (index >= list_.size()) throw JsonError(fmt::format("a list of {} has no element {}", list_.size(), index));
  return list_[index];
}

const Json& Json::at(std::string_view name) const {
  if (!is_object()) refuse(*this, "an object");
  const Json* found = find(name);
  if (!found) throw JsonError(fmt::format("key '{}' not found", name));
  return *found;
}

const Json* Json::begin() const {
  if (!is_array()) refuse(*this, "a list");
  return list_.data();
}
const Json* Json::end() const { return begin() + list_.size(); }

const std::vector<Json::Member>& Json::items() const {
  if (!is_object()) refuse(*this, "an object");
  return members_;
}

const Json* Json::find(std::string_view name) const {
  const auto last = std::find_if(members_.rbegin(), members_.rend(), [&](const Member& m) { return m.name == name; });
  return last == members_.rend() ? nullptr : &last->value;
}

bool Json::operator==(const Json& other) const {
  if (is_number() && other.is_number()) return number_ == other.number_;
  const auto same = [](const Member& a, const Member& b) { return a.name == b.name && a.value == b.value; };
  return kind_ == other.kind_ && whole_ == other.whole_ && text_ == other.text_ && list_ == other.list_ &&
         std::is_permutation(members_.begin(), members_.end(), other.members_.begin(), other.members_.end(), same);
}

const std::string& Json::text() const {
  if (!is_string()) refuse(*this, "a text");
  return text_;
}
bool Json::truth() const {
  if (!is_boolean()) refuse(*this, "true or false");
  return whole_ != 0;
}
double Json::number() const {
  if (!is_number()) refuse(*this, "a number");
  return number_;
}
std::uint64_t Json::whole() const {
  if (is_number_integer()) return whole_;
  const double value = number();
  return value < 0 ? static_cast<std::uint64_t>(static_cast<std::int64_t>(value)) : static_cast<std::uint64_t>(value);
}

Json Json::of(std::string_view text) {
  Json json;
  json.kind_ = Kind::text;
  json.text_ = utf8(text);
  return json;
}
Json Json::of_truth(bool value) { return JsonBuilder::make(Kind::truth, 0, value); }
Json Json::of_whole(double value, std::uint64_t bits) { return JsonBuilder::make(Kind::whole, value, bits); }
Json Json::of_real(double value) { return JsonBuilder::make(Kind::real, value, 0); }
Json Json::list(std::vector<Json> elements) {
  Json json;
  json.kind_ = Kind::list;
  json.list_ = std::move(elements);
  return json;
}
Json Json::object(std::vector<Member> members) {
  Json json;
  json.kind_ = Kind::object;
  json.members_ = std::move(members);
  return json;
}

/// On one line where `indent` is negative.
void Json::write(std::string& out, int indent, int level) const {
  const auto new_line = [&](int deep) {
    if (indent >= 0) out += "\n" + std::string(static_cast<std::size_t>(indent) * static_cast<std::size_t>(deep), ' ');
  };
  const auto write_all = [&](char open, std::size_t count, char close, const auto& write_one) {
    out += open;
    for (std::size_t i = 0; i < count; ++i) {
      if (i > 0) out += ',';
      new_line(level + 1);
      write_one(i);
    }
    if (count > 0) new_line(level);
    out += close;
  };
  switch (kind_) {
    case Kind::null: out += "null"; break;
    case Kind::truth: out += whole_ ? "true" : "false"; break;
    case Kind::text: out += lockstep::quoted(text_); break;
    case Kind::whole:
      out += number_ < 0 ? fmt::format("{}", static_cast<std::int64_t>(whole_)) : fmt::format("{}", whole_);
      break;
    case Kind::real: {
      const std::string digits = std::isfinite(number_) ? fmt::format("{}", number_) : "null";
      out += digits.find_first_of(".eu") == digits.npos ? digits + ".0" : digits;
      break;
    }
    case Kind::list:
      write_all('[', list_.size(), ']', [&](std::size_t i) { list_[i].write(out, indent, level + 1); });
      break;
    case Kind::object:
      write_all('{', members_.size(), '}', [&](std::size_t i) {
        out += lockstep::quoted(members_[i].name) + (indent < 0 ? ":" : ": ");
        members_[i].value.write(out, indent, level + 1);
      });
      break;
  }
}

std::string Json::dump() const { return dump(-1); }
std::string Json::dump(int indent) const {
  std::string all;
  write(all, indent, 0);
  return all;
}

std::ostream& operator<<(std::ostream& out, const Json& json) { return out << json.dump(); }

}  // namespace lockstep
