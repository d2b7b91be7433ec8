#include "tools/course/answer_pointers.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace lockstep::tools {
namespace {

/// Names in the standard library that take a pointer and a number, or advance a pointer.
constexpr std::string_view kFromPointers =
    " span string_view basic_string_view next prev advance copy_n fill_n for_each_n counted counted_iterator subrange"
    " reverse_iterator make_reverse_iterator move_iterator make_move_iterator ";
constexpr std::string_view kBuiltIn =
    " auto bool char short int long float double unsigned signed size_t ptrdiff_t int8_t int16_t int32_t int64_t"
    " uint8_t uint16_t uint32_t uint64_t ";

/// "Foo", and not "T" or "INT_MAX".
bool is_named_like_a_type(const std::string& word) {
  return std::isupper(static_cast<unsigned char>(word[0])) &&
         std::any_of(word.begin(), word.end(), [](unsigned char c) { return std::islower(c); });
}

bool is_plus_or_minus(const Token& token) { return token.is("+") || token.is("-"); }
bool is_member(const Around& around) { return around[-1].is(".") || around[-1].is("->"); }

/// At an opening bracket: by how much its closing one is away; 0 where that is too far.
int closing(const Around& around) {
  int depth = 0;
  for (int by = 0; around[by].kind != Token::Kind::end; ++by) {
    depth += around[by].is("(") || around[by].is("[") || around[by].is("{");
    depth -= around[by].is(")") || around[by].is("]") || around[by].is("}");
    if (depth == 0) return by;
  }
  return 0;
}

/// At the `<` behind a template's name: by how much its `>` is away; 0 where it is none.
int closing_angle(const Around& around) {
  int depth = 0;
  for (int by = 0; around[by].kind != Token::Kind::end && !around[by].is(";"); ++by) {
    depth += around[by].is("<") ? 1 : around[by].is(">") ? -1 : 0;
    if (depth == 0) return by;
  }
  return 0;
}

/// At a `&` in front of its operand.
bool takes_address(const Around& around) {
  constexpr std::string_view before_operand = " return case else throw ";
  const Token& before = around[-1];
  if (!around[0].is("&") || around[1].kind != Token::Kind::word) return false;
  if (before.kind == Token::Kind::word) return listed_in(before_operand, before.text);
  return before.kind == Token::Kind::sign && !before.is(")") && !before.is("]") && !before.is(">") && !before.is("[");
}

/// At the first word of "a.b(c)->d[e]": by how much what stands behind it is away.
int behind_operand(const Around& around) {
  int by = 0;
  while (true) {
    const Token& token = around[by];
    if (token.kind == Token::Kind::word || token.is("::") || token.is(".") || token.is("->")) {
      ++by;
    } else if (token.is("(") || token.is("[")) {
      const int end = closing(around.at(by));
      if (end == 0) return by;
      by += end + 1;
    } else {
      return by;
    }
  }
}

bool indexes(const Around& around) {
  return around[0].is("[") && !(around[1].kind == Token::Kind::number && around[1].text == "0" && around[2].is("]"));
}

/// At the comma in front of a size: "v.size())", or 1 of one object, or 0.
bool is_whole(const Around& around) {
  const bool few = around[1].text == "0" || around[1].text == "1";
  if (few && (around[2].is(")") || around[2].is("}"))) return true;
  int by = 1;
  while (around[by].kind == Token::Kind::word || around[by].is(".") || around[by].is("->") || around[by].is("::")) ++by;
  return around[by - 1].word("size") && around[by].is("(") && around[by + 1].is(")") &&
         (around[by + 2].is(")") || around[by + 2].is("}"));
}

/// True if the type that ends at the next `;` is a pointer.
bool ends_in_star(const Around& around) {
  int by = 0;
  while (around[by].kind != Token::Kind::end && !around[by].is(";")) ++by;
  return around[by - 1].is("*") || (around[by - 1].word("const") && around[by - 2].is("*"));
}

}  // namespace

void Pointers::note_scope(const Around& around) {
  const Token& token = around[0];
  if (token.is("(")) ++parentheses_;
  if (token.is(")")) parentheses_ = std::max(0, parentheses_ - 1), class_begins_ = false;
  if (token.is(";") || token.is(">")) class_begins_ = false;
  const bool type = token.word("class") || token.word("struct") || token.word("typename");
  if (token.word("class") || token.word("struct")) class_begins_ = true;
  const bool alias = token.word("using") && around[2].is("=");
  if ((type || alias) && around[1].kind == Token::Kind::word) types_.insert(around[1].text);
  if (alias && ends_in_star(around.at(3))) pointer_types_.insert(around[1].text);
  if (token.is("{")) of_class_.push_back(class_begins_), class_begins_ = false;
  if (!token.is("}") || of_class_.empty()) return;
  of_class_.pop_back();
  const int depth = static_cast<int>(of_class_.size());
  std::erase_if(in_scope_, [&](const auto& name) {
    if (name.first <= depth) return false;
    names_.erase(names_.find(name.second));
    return true;
  });
}

/// The last token of a type: a word, or a template's `>`.
bool Pointers::is_type(const Around& around) const {
  const Token& token = around[0];
  if (token.is("*")) return is_type(around.at(-1));
  if (token.word("const")) return is_type(around.at(-1));
  if (token.kind == Token::Kind::word)
    return listed_in(kBuiltIn, token.text) || types_.contains(token.text) || is_named_like_a_type(token.text);
  if (!token.is(">")) return false;
  int depth = 0;
  for (int by = 0;; --by) {
    const Token& part = around[by];
    depth += part.is(">") ? 1 : part.is("<") ? -1 : 0;
    if (depth == 0) return around[by - 1].kind == Token::Kind::word;
    const bool of_type = part.is(">") || part.is("<") || part.is("::") || part.is(",") || part.is("*");
    if (!of_type && part.kind != Token::Kind::word && part.kind != Token::Kind::number) return false;
  }
}

/// At a word that a declaration makes the name of a pointer.
void Pointers::note_name(const Around& around) {
  const int star = around[-1].word("const") ? -2 : -1;
  const Token& next = around[1];
  const bool ends = next.is("=") || next.is(";") || next.is(",") || next.is(")") || next.is("{") || next.is(":");
  const bool declared =
      ends && ((around[star].is("*") && is_type(around.at(star - 1))) ||
               (around[star].kind == Token::Kind::word && pointer_types_.contains(around[star].text)));
  int value = next.is("=") || ((next.is("{") || next.is("(")) && around[-1].word("auto")) ? 2 : 0;
  const bool deduced = value > 0 && (around[-1].word("auto") || around[-1].is("[") || around[-1].is(","));
  int behind = 0;
  const bool address =
      deduced && is_address(around.at(value), behind) &&
      (around[value + behind].is(";") || around[value + behind].is("]") || around[value + behind].is(",") ||
       around[value + behind].is(")") || around[value + behind].is("}"));
  if (!declared && !address) return;
  if (declared && around[star - 1].word("char")) texts_.insert(around[0].text);
  if (!of_class_.empty() && of_class_.back() && parentheses_ == 0) {
    members_.insert(around[0].text);
    return;
  }
  names_.insert(around[0].text);
  in_scope_.emplace_back(static_cast<int>(of_class_.size()) + (parentheses_ > 0), around[0].text);
}

bool Pointers::is_pointer(const Around& around) const {
  const Token& token = around[0];
  if (token.kind != Token::Kind::word || around[-1].is("::")) return false;
  return is_member(around) ? members_.contains(token.text) : names_.contains(token.text);
}

/// At "&x.y", "v.data()", "std::data(v)", or a pointer's name; `behind` is how far what follows is away.
bool Pointers::is_address(const Around& around, int& behind) const {
  if (takes_address(around)) {
    behind = 1 + behind_operand(around.at(1));
    return true;
  }
  if (around[0].kind != Token::Kind::word) return false;
  behind = behind_operand(around);
  if (behind == 1) return is_pointer(around);
  if (around[0].word("std") && around[2].word("data") && around[3].is("(")) return true;
  const bool called = around[behind - 1].is(")") && around[behind - 2].is("(");
  const Token& name = around[behind - 3];
  return called && (name.word("data") || name.word("c_str"));
}

/// At a pointer's name: "p[i]", "p + 1", "++p"; not "p - q".
std::string Pointers::use_of_name(const Around& around) const {
  const std::string& name = around[0].text;
  if (indexes(around.at(1))) return "indexes the pointer " + name;
  const std::string arithmetic = "has arithmetic on the pointer " + name;
  int first = 0;  // of "a.b->p"
  while ((around[first - 1].is(".") || around[first - 1].is("->")) && around[first - 2].kind == Token::Kind::word)
    first -= 2;
  const Token &before = around[first - 1], &next = around[1], &after = around[2];
  const bool same = is_plus_or_minus(next) && after.is(next.text);
  if (same || (is_plus_or_minus(next) && after.is("=") && !before.is("*"))) return arithmetic;
  if (is_plus_or_minus(before) && around[first - 2].is(before.text) && !next.is("->")) return arithmetic;
  const bool text = texts_.contains(name);  // which may be added to a std::string
  int behind = 0;
  const bool difference = next.is("-") && is_address(around.at(2), behind);
  if (is_plus_or_minus(next) && !before.is("*") && !difference && (!text || after.kind == Token::Kind::number))
    return arithmetic;
  const bool ends = next.is(";") || next.is(")") || next.is(",") || next.is("]");
  return before.is("+") && ends && (!text || around[first - 2].kind == Token::Kind::number) ? arithmetic : "";
}

/// At "&x", or at a result of data() or c_str(): "&x + 1", "(&x)[1]", "v.data()[1]".
std::string Pointers::use_of_address(const Around& around) const {
  if (takes_address(around)) {
    int behind = 1 + behind_operand(around.at(1));
    const bool in_brackets = around[-1].is("(") && around[behind].is(")") && around[-2].kind != Token::Kind::word &&
                             !around[-2].is(")") && !around[-2].is("]") && !around[-2].is(">");
    behind += in_brackets;
    const bool computes = is_plus_or_minus(around[behind]) && !around[behind + 1].is("&");
    return computes || (in_brackets && indexes(around.at(behind))) ? "has arithmetic on an address" : "";
  }
  const bool called = (around[0].word("data") || around[0].word("c_str")) && around[1].is("(");
  const int end = called && (is_member(around) || around[-1].is("::")) ? 1 + closing(around.at(1)) : 0;
  if (end <= 1 || (is_member(around) && end != 2)) return "";
  const bool computes = is_plus_or_minus(around[end + 1]) || indexes(around.at(end + 1));
  return computes ? "has arithmetic on the address that " + around[0].text + "() returns" : "";
}

/// At the name of what takes a pointer and a number: "std::span<int> s(&x, n)", "std::next(p)".
std::string Pointers::given_to_library(const Around& around) const {
  if (!listed_in(kFromPointers, around[0].text) || is_member(around)) return "";
  int by = 1;
  if (around[by].is("<")) by += closing_angle(around.at(by)) + 1;
  if (around[by].kind == Token::Kind::word) ++by;
  if (around[by].is("=")) ++by;
  if (!around[by].is("(") && !around[by].is("{")) return "";
  int behind = 0;
  if (!is_address(around.at(by + 1), behind)) return "";
  const Around next = around.at(by + 1 + behind);
  const bool view = around[0].text.starts_with("s") || around[0].text.starts_with("b");  // of what begins there
  if (view ? !next[0].is(",") || is_whole(next) : !next[0].is(",") && !next[0].is(")")) return "";
  return "gives an address to " + around[0].text;
}

std::string Pointers::at(const Around& around) {
  note_scope(around);
  if (around[0].kind == Token::Kind::word) {
    note_name(around);
    if (is_pointer(around))
      if (std::string what = use_of_name(around); !what.empty()) return what;
    if (std::string what = given_to_library(around); !what.empty()) return what;
  }
  return use_of_address(around);
}

}  // namespace lockstep::tools
