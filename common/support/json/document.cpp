#include "common/support/json/document.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>

#include "common/support/json/escape.hpp"

namespace lockstep {
namespace {

using Library = nlohmann::json;

[[noreturn]] void refuse(const Json& json, std::string_view wanted) {
  throw JsonError(fmt::format("{} is not {}", json.quote(), wanted));
}

/// Returns the library's message without the name of its exception in brackets.
std::string format_error(std::string_view what) {
  const std::size_t bracket = what.find("] ");
  return std::string(bracket == what.npos ? what : what.substr(bracket + 2));
}

/// A reader's position in a text. The library copies it freely and does not report its own position; `furthest` is the
/// position of the copy that went furthest.
class Progress {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Progress(const char* at, const char** furthest) : at_(at), furthest_(furthest) {}
  const char& operator*() const { return *at_; }
  Progress& operator++() {
    *furthest_ = ++at_;
    return *this;
  }
  Progress operator++(int) {
    Progress before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Progress& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  const char** furthest_;
};

}  // namespace

/// Receives the events of the library's parser.
class JsonBuilder {
 public:
  explicit JsonBuilder(const std::string& text, int depth = -1, const std::function<void(const Json&)>* take = nullptr)
      : begin_(text.data()), at_(begin_), depth_(depth), take_(take) {}

  Json build(std::size_t bytes, bool ignore_comments = false) {
    Library::sax_parse(Progress(begin_, &at_), Progress(begin_ + bytes, &at_), this, Library::input_format_t::json,
                       /*strict=*/true, ignore_comments);
    return std::move(result_);
  }

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
  bool binary(Library::binary_t&) { return false; }  // does not occur in texts

  bool start_object(std::size_t) { return open(Json::Kind::object); }
  bool start_array(std::size_t) { return open(Json::Kind::list); }
  bool key(std::string& name) {
    if (open_.back().has(name)) fail(fmt::format("\"{}\" occurs twice", name));
    open_.back().name = std::move(name);
    return true;
  }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) {
    throw JsonError(format_error(error.what()));
  }

  static Json make(Json::Kind kind, double number, std::uint64_t whole) {
    Json json;
    json.kind_ = kind;
    json.number_ = number;
    json.whole_ = whole;
    return json;
  }

 private:
  struct Open {
    Json json;
    std::string name;             // the next member's
    std::set<std::string> names;  // the members', if there are many

    bool has(const std::string& wanted) {
      constexpr std::size_t few = 16;
      if (json.members_.size() < few) return json.contains(wanted);
      if (names.empty())
        for (const Json::Member& member : json.members_) names.insert(member.name);
      return !names.insert(wanted).second;
    }
  };

  /// Throws with the library's message.
  [[noreturn]] void fail(const std::string& what) const {
    const std::string_view read(begin_, static_cast<std::size_t>(at_ - begin_));
    throw JsonError(fmt::format("parse error at line {}, column {}: {}", 1 + std::count(read.begin(), read.end(), '\n'),
                                read.size() - (read.rfind('\n') + 1), what));  // npos + 1 is 0
  }

  bool open(Json::Kind kind) {
    if (open_.size() == Json::kMostNested)
      fail(fmt::format("lists and objects are nested more than {} deep", Json::kMostNested));
    open_.push_back({make(kind, 0, 0), "", {}});
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
      result_ = std::move(json);
    else if (Open& in = open_.back(); in.json.is_array())
      in.json.list_.push_back(std::move(json));
    else
      in.json.members_.push_back({std::move(in.name), std::move(json)});
    return true;
  }

  Json result_;
  const char* begin_;
  const char* at_;  // end of the text read so far
  int depth_;
  const std::function<void(const Json&)>* take_;
  std::vector<Open> open_;  // outermost first
};

Json Json::parse(const std::string& text) { return parse(text, -1, {}); }
Json Json::parse(const std::string& text, int depth, const std::function<void(const Json&)>& take) {
  return JsonBuilder(text, depth, &take).build(text.size());
}
Json Json::parse_with_comments(const std::string& text) {
  return JsonBuilder(text).build(text.size(), /*ignore_comments=*/true);
}
std::optional<Json> Json::parse_if_valid(const std::string& text) {
  try {
    return parse_with_comments(text);
  } catch (const JsonError&) {
    return std::nullopt;
  }
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
std::uint64_t Json::whole(std::int64_t least, std::uint64_t most) const {
  const double value = number();
  std::uint64_t bits = whole_;
  bool fits = is_number_integer();
  if (!fits) {  // 1e3
    fits = value == std::floor(value) && value >= -0x1p63 && value < 0x1p64;
    if (fits)
      bits =
          value < 0 ? static_cast<std::uint64_t>(static_cast<std::int64_t>(value)) : static_cast<std::uint64_t>(value);
  }
  if (!fits || (value < 0 ? static_cast<std::int64_t>(bits) < least : bits > most))
    refuse(*this, fmt::format("a whole number from {} to {}", least, most));
  return bits;
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

/// Writes on one line if `indent` is negative.
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

std::string Json::quote() const {
  constexpr std::size_t most = 60;
  std::string text = dump();
  if (text.size() <= most) return text;
  std::size_t end = most;
  while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // do not cut within a character
  return text.substr(0, end) + "…";
}

std::ostream& operator<<(std::ostream& out, const Json& json) { return out << json.dump(); }

}  // namespace lockstep
