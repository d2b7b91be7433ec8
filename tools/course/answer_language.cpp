#include "tools/course/answer_language.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <utility>
#include <vector>

#include "tools/course/answer_pointers.hpp"
#include "tools/course/cpp_tokens.hpp"

namespace lockstep::tools {
namespace {

// Constructs outside the language, by name ----------------------------------------------------------------------------

constexpr std::string_view kWords =
    " reinterpret_cast const_cast dynamic_cast union extern goto volatile thread_local __thread new typeof __typeof__"
    " _Pragma __pragma __attribute__ __attribute __declspec stdin stdout stderr FILE _fileno bit_cast add_pointer_t"
    " decay_t make_unique_for_overwrite make_shared_for_overwrite rdbuf iword pword imbue wcout wcerr wclog wcin cin"
    " reinterpret_pointer_cast const_pointer_cast static_pointer_cast dynamic_pointer_cast coroutine_handle"
    " as_bytes as_writable_bytes pmr"
    " steady_clock system_clock high_resolution_clock utc_clock tai_clock gps_clock file_clock ";
/// Functions on memory: where one of these is called, or named in a namespace.
constexpr std::string_view kFunctions =
    " memcpy memmove memset memcmp memchr malloc calloc realloc alloca aligned_alloc posix_memalign construct_at"
    " destroy_at launder addressof to_address allocator allocator_traits offsetof va_start start_lifetime_as"
    " uninitialized_copy uninitialized_fill ";
/// Reserved for the compiler, and yet fine.
constexpr std::string_view kCompilersOwn = " __func__ __FILE__ __LINE__ __PRETTY_FUNCTION__ ";
constexpr std::string_view kAttributes =
    " maybe_unused nodiscard noreturn fallthrough likely unlikely deprecated no_unique_address ";
constexpr std::string_view kDirectives = " include if ifdef ifndef elif else endif error warning ";
/// Headers of C that C++ has as well; its own have no dot.
constexpr std::string_view kHeadersOfC =
    " assert.h ctype.h errno.h float.h limits.h math.h stddef.h stdint.h stdlib.h stdio.h string.h"
    " inttypes.h time.h ";
/// Headers of the suite, outside labs/, that answers may include by name.
constexpr std::array kFoldersOfOurs{"common/",
                                    "common/gpt/model/",
                                    "common/gpt/pipeline/",
                                    "common/support/stats/",
                                    "common/support/text/storage.hpp",
                                    "common/support/text/units.hpp",
                                    "common/support/text/counted.hpp",
                                    "common/runtime/machine/machine.hpp"};
/// Words that make up the name of a number type.
constexpr std::string_view kNumbers =
    " bool char short int long float double unsigned signed char8_t size_t ptrdiff_t int8_t int16_t"
    " int32_t int64_t uint8_t uint16_t uint32_t uint64_t intmax_t uintmax_t size_type difference_type"
    " value_type intptr_t uintptr_t ssize_t ";

bool is_reserved(std::string_view word) {
  const bool reserved = word.starts_with("__") ||
                        (word.size() > 1 && word[0] == '_' && std::isupper(static_cast<unsigned char>(word[1])));
  const auto bits = [&](std::string_view name) { return word.starts_with(name); };  // what <bit> has as well
  return reserved && !listed_in(kCompilersOwn, word) && !bits("__builtin_popcount") && !bits("__builtin_clz") &&
         !bits("__builtin_ctz");
}

/// True if an answer may include the header `name`, which stands between quotes or angle brackets.
bool may_be_included(std::string_view name, bool quoted) {
  if (name.find("..") != name.npos) return false;
  if (quoted && (!name.ends_with(".hpp") || name.ends_with("_testing.hpp"))) return false;
  if (quoted)
    return name.starts_with("labs/") || std::any_of(kFoldersOfOurs.begin(), kFoldersOfOurs.end(), [&](auto folder) {
             return name.starts_with(folder) && name.find('/', std::string_view(folder).size()) == name.npos;
           });
  if (name.starts_with("fmt/")) return true;
  return name.find('/') == name.npos && (name.find('.') == name.npos || listed_in(kHeadersOfC, name));
}

// Constructs outside the language, by their tokens --------------------------------------------------------------------

bool is_number_type(const Token& t) { return t.kind == Token::Kind::word && listed_in(kNumbers, t.text); }
bool is_type_word(const Token& t) {
  return is_number_type(t) || t.word("const") || t.word("std") || t.word("void") || t.word("auto") || t.is("::");
}
/// True for a type through which a pointer sees raw bytes: void, char and their like, but not const char*, which is
/// text.
bool is_memory(const Around& around) {
  const Token& t = around[0];
  if (t.word("char")) return !around[-1].word("const") && !around[1].word("const");
  return t.word("void") || (t.word("byte") && around[-1].is("::")) || t.word("char8_t") || t.word("int8_t") ||
         t.word("uint8_t");
}
/// At a `*`: of void*, char*, std::byte*. A pointer to an object is fine: honest answers have some.
bool is_pointer_to_memory(const Around& around) {
  const int type = around[-1].word("const") ? -2 : -1;
  return is_memory(around.at(type)) ||
         (around[type].word("char") && (around[type - 1].word("unsigned") || around[type - 1].word("signed")));
}

/// The names that an answer's text gives to types: to numbers, and to what may be a pointer.
struct Names {
  std::set<std::string> numbers, pointers;
  /// At each token: a template's parameter, "class F", or "using P = float*;".
  void note(const Around& around) {
    const bool of_template = around[-2].is("<") || around[-2].is(",");
    if (of_template && (around[-1].word("class") || around[-1].word("typename"))) pointers.insert(around[0].text);
    if (!around[0].word("using") || !around[2].is("=")) return;
    bool number = true, pointer = false;
    for (int by = 3; around[by].kind != Token::Kind::end && !around[by].is(";"); ++by) {
      number = number && is_type_word(around[by]) && !around[by].word("auto");
      pointer = pointer || around[by].is("*") || around[by].word("decltype") || around[by].text.ends_with("_t") ||
                around[by].word("type") || around[by].word("pointer");
    }
    if (number) numbers.insert(around[1].text);
    if (pointer && !number) pointers.insert(around[1].text);
  }
};

/// At a `(`: "(float)x", "(const char*)x", "(Foo)x", "(Foo*)(x)", and "(P)(x)" of a P among `names`. Not a parameter
/// list, and not what sizeof measures.
bool is_c_cast(const Around& around, const Names& names) {
  constexpr std::string_view no_names = " return else throw case or and not ";
  const Token& before = around[-1];
  const bool after_word = before.kind == Token::Kind::word && !listed_in(no_names, before.text);
  if (after_word || before.is(">") || before.is("]") || before.is(")")) return false;
  int by = 1;
  bool number = false;
  for (; around[by].kind == Token::Kind::word || around[by].is("::") || (by > 1 && around[by].is("*")); ++by)
    number = number || around[by].word("void") || is_number_type(around[by]) ||
             names.numbers.contains(around[by].text) || names.pointers.contains(around[by].text) ||
             (around[by].is("*") && around[by + 1].is(")"));
  const bool discards = by == 2 && around[1].word("void");  // "(void)unused"
  if (by == 1 || discards || !around[by].is(")")) return false;
  const Token& next = around[by + 1];
  constexpr std::string_view no_operand = " const noexcept mutable override final or xor bitor ";
  if (next.kind == Token::Kind::word) return !listed_in(no_operand, next.text);
  constexpr std::string_view signs = " ( - + ~ ! & * { ";  // a name in brackets may stand before them
  return next.kind == Token::Kind::literal || next.kind == Token::Kind::number ||
         (number && next.kind == Token::Kind::sign && listed_in(signs, next.text));
}

/// At static_cast: its type is not a number's.
bool casts_no_number(const Around& around, const Names& names) {
  int by = 2;
  for (; (is_type_word(around[by]) && !around[by].word("auto")) || names.numbers.contains(around[by].text); ++by) {
  }
  return !around[1].is("<") || !around[by].is(">");
}

/// At the end of "std::conditional_t<true, float*, int>(", or of the same in brackets: what stands in front of the
/// bracket names a pointer.
bool casts_by_template(const Around& around) {
  if (!around[1].is("(") && !(around[1].is(")") && around[2].is("("))) return false;
  int depth = 0;
  bool pointer = false;
  for (int by = 0;; --by) {
    const Token& token = around[by];
    depth += token.is(">") ? 1 : token.is("<") ? -1 : 0;
    if (depth == 0) return pointer;
    const bool declares = around[by + 1].is(">") || around[by + 1].is(",") || around[by + 1].word("const");
    pointer = pointer || (token.is("*") && declares);
    const bool of_type =
        token.is(">") || token.is("<") || token.is("*") || token.is("::") || token.is(",") || token.is("&");
    if (!of_type && token.kind != Token::Kind::word && token.kind != Token::Kind::number) return false;
  }
}

/// At decltype: "decltype(p)(n)".
bool casts_by_decltype(const Around& around) {
  int depth = 0;
  for (int by = 1; around[by].kind != Token::Kind::end; ++by) {
    depth += around[by].is("(") ? 1 : around[by].is(")") ? -1 : 0;
    if (depth == 0) return around[by + 1].is("(") || around[by + 1].is("{");
  }
  return false;
}

/// At typedef: of a pointer.
bool names_a_pointer(const Around& around) {
  for (int by = 1; around[by].kind != Token::Kind::end && !around[by].is(";"); ++by)
    if (around[by].is("*") || around[by].word("decltype")) return true;
  return false;
}

/// At the last name of "&lockstep::Slice::data" and "&Slice::size_": private members have such names. An explicit
/// specialisation may use them anyway ([temp.spec.general]).
bool reaches_inside(const Around& around) {
  constexpr std::string_view inside = " block data backend ";
  if (!around[-1].is("::") || (!listed_in(inside, around[0].text) && !around[0].text.ends_with('_'))) return false;
  int by = -2;
  while (around[by].kind == Token::Kind::word || around[by].is("::")) --by;
  const bool operand = around[by - 1].kind == Token::Kind::word || around[by - 1].kind == Token::Kind::number ||
                       around[by - 1].is(")") || around[by - 1].is("]");
  return around[by].is("&") && !operand && !around[by + 1].word("std");
}

/// At class and its like: of a name in lockstep, such as "struct lockstep::Rank {".
bool defines_in_lockstep(const Around& around) {
  const int by = around[1].is("::") ? 2 : 1;
  return listed_in(" class struct enum ", around[0].text) && around[by].word("lockstep") && around[by + 1].is("::");
}

/// Name of the namespace that is opened here; "" where none is, or one without a name.
const std::string& namespace_opened(const Around& around) {
  int by = 1;
  if (around[1].is("[") && around[2].is("["))
    while (around[by - 1].kind != Token::Kind::end && !(around[by - 1].is("]") && around[by - 2].is("]"))) ++by;
  return around[by].text;
}

std::string construct_of_word(const Around& around, const Names& names, bool in_directive, bool expanded) {
  const Token& token = around[0];
  const bool member = around[-1].is(".") || around[-1].is("->");
  if (listed_in(" asm __asm __asm__ ", token.text)) return "has an asm statement or label";
  if (listed_in(kWords, token.text)) return "has " + token.text;
  if (around[-1].is("::") && listed_in(" decay add_pointer pointer const_pointer ", token.text))
    return "has " + token.text;
  if (member && token.text == "tie") return "has tie()";
  if (token.text == "delete" && !around[-1].is("=")) return "has delete";
  if (listed_in(kFunctions, token.text) && !member && (around[1].is("(") || around[1].is("<") || around[-1].is("::")))
    return "has " + token.text;
  if (token.text == "decltype" && casts_by_decltype(around)) return "casts by decltype";
  if (token.text == "typedef" && names_a_pointer(around)) return "has another name for a pointer";
  const bool zero = around[2].text == "0" || around[2].text == "1";  // T(0), which is fine
  if (around[1].is("(") && names.pointers.contains(token.text) && !zero) return "casts to " + token.text;
  if (member && around[1].is("(") && around[2].is(")") && (token.text == "backend" || token.text == "block"))
    return "calls " + token.text + "()";
  if (reaches_inside(around)) return "reaches into " + around[-2].text;
  if (token.text == "template" && !around[1].is("<") && !member && !around[-1].is("::"))
    return "instantiates a template by its name";
  if (token.text == "static_cast" && casts_no_number(around, names))
    return "has a static_cast to something but a number";
  if (token.text == "namespace" && listed_in(" std testing fmt ", namespace_opened(around)))
    return "adds to namespace " + namespace_opened(around);
  if (defines_in_lockstep(around)) return "defines something in namespace lockstep itself";
  if (token.text.starts_with("FMT_") && !listed_in(" FMT_STRING FMT_COMPILE FMT_VERSION ", token.text))
    return "has " + token.text;
  if (!in_directive && !expanded && is_reserved(token.text)) return "has " + token.text;
  return "";
}

/// Inside [[…]], which only attributes begin with.
std::string construct_of_attribute(const Around& around) {
  for (int by = 2; around[by].kind != Token::Kind::end && !around[by].is("]"); ++by) {
    const bool names = around[by].kind == Token::Kind::word && (by == 2 || around[by - 1].is(","));
    if (names && (!listed_in(kAttributes, around[by].text) || around[by + 1].is("::")))
      return fmt::format("has the attribute {}",
                         around[by + 1].is("::") ? around[by].text + "::" + around[by + 2].text : around[by].text);
  }
  return "";
}

/// The tokens of one text, and the constructs outside the language in them.
class Reading {
 public:
  explicit Reading(bool expanded) : expanded_(expanded) {}
  void add(Token token) { tokens_.push_back(std::move(token)); }

  std::optional<Outside> look() const {
    int directive = 0;  // the line of the last one
    Names names;
    Pointers pointers;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const Around around(tokens_, i);
      if (tokens_[i].directive) directive = tokens_[i].line;
      names.note(around);
      std::string what = construct(around, names, directive == tokens_[i].line);
      if (std::string computed = pointers.at(around); what.empty()) what = std::move(computed);
      if (!what.empty()) return Outside{tokens_[i].line, what};
      if (tokens_[i].word("namespace") && declares_itself(i))
        return Outside{tokens_[i].line, "declares something in namespace lockstep itself"};
    }
    return {};
  }

 private:
  /// At "namespace lockstep {": whether there is anything in it but other namespaces.
  bool declares_itself(std::size_t at) const {
    if (namespace_opened(Around(tokens_, at)) != "lockstep") return false;
    while (at < tokens_.size() && !tokens_[at].word("lockstep")) ++at;
    if (at + 1 >= tokens_.size() || !tokens_[++at].is("{")) return false;
    int depth = 1;
    while (depth > 0 && ++at < tokens_.size()) {
      if (depth == 1 && tokens_[at].word("namespace"))
        while (at + 1 < tokens_.size() && !tokens_[at].is("{") && !tokens_[at].is(";")) ++at;
      else if (depth == 1 && !tokens_[at].is("}"))
        return true;
      depth += tokens_[at].is("{") ? 1 : tokens_[at].is("}") ? -1 : 0;
    }
    return false;
  }

  std::string construct(const Around& around, const Names& names, bool in_directive) const {
    const Token& token = around[0];
    if (token.directive && !expanded_ && !listed_in(kDirectives, token.text)) return "has a #" + token.text;
    if (token.directive) return token.text == "pragma" ? "has a #pragma" : "";
    if (token.kind == Token::Kind::word) return construct_of_word(around, names, in_directive, expanded_);
    if (token.kind != Token::Kind::sign) return "";
    if (token.text == "\\" || token.text == "##") return "has a " + token.text;
    if (token.text == "[" && around[1].is("[")) return construct_of_attribute(around);
    if (token.text == "(" && is_c_cast(around, names)) return "has a C cast";
    if (token.text == ">" && casts_by_template(around)) return "casts to a pointer";
    if ((token.text == "*" || token.text == "*=") && is_pointer_to_memory(around))
      return fmt::format("has a pointer to memory ({}*)", around[-1].text);
    return "";
  }

  bool expanded_;
  std::vector<Token> tokens_;
};

/// Reads the name in an #include; "" if an answer may include it.
std::string construct_of_include(Scanner& scanner) {
  const std::string written = scanner.header_name();
  if (written.empty()) return "has an #include of a macro";
  const std::string name = written.substr(1, written.size() - 2);
  return may_be_included(name, written[0] == '"') ? "" : "includes " + name;
}

/// "# 12 "a.cpp"" → 12, from 2 on.
int number_at(std::string_view text, std::size_t at) {
  int number = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) number = 10 * number + (text[at] - '0');
  return number;
}

}  // namespace

std::string Outside::sentence() const { return fmt::format("line {} {}, which no lab answer needs", line, what); }

std::optional<Outside> outside_the_language(std::string_view text) {
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    return Outside{.line = 1, .what = "begins text in UTF-16 (save the file as UTF-8)"};
  Scanner scanner(text);
  Reading reading(false);
  std::optional<Outside> include;  // the first that may not be
  for (Token token = scanner.next(); token.kind != Token::Kind::end; token = scanner.next()) {
    if (token.directive && token.text == "include")
      if (const std::string what = construct_of_include(scanner); !what.empty() && !include)
        include = {token.line, what};
    reading.add(std::move(token));
  }
  std::optional<Outside> found = reading.look();
  return found && (!include || found->line <= include->line) ? found : include;
}

std::optional<Outside> outside_once_preprocessed(std::string_view text, std::string_view file) {
  // "# 12 "a.cpp" 3 4": what follows is line 12 of that file; a 3 says that a system header's macro wrote it.
  const std::string own = " \"" + std::string(file) + "\"";
  Reading reading(true);
  std::size_t at = 0;
  const auto next_of_own = [&] {  // past the next marker of the file, whose line it returns; −1: there is none
    for (at = text.find(own, at); at != text.npos; at = text.find(own, at + 1)) {
      const std::size_t begin = text.rfind('\n', at) + 1, end = std::min(text.find('\n', at), text.size());
      const std::string_view marker = text.substr(begin, end - begin);
      if (!marker.starts_with("# ") || marker.substr(at - begin).find(" 3", own.size()) != marker.npos) continue;
      at = end + 1;
      return number_at(marker, 2);
    }
    return -1;
  };
  int depth = 0;  // of braces: in a namespace of its own, a header's classes would be others
  std::optional<Outside> within;
  for (int line = next_of_own(); line >= 0 && at <= text.size(); line = next_of_own()) {
    Scanner scanner(text, at, line);
    Token token = scanner.next();
    for (; token.kind != Token::Kind::end; token = scanner.next()) {
      at = scanner.at();
      if (!token.is("#")) {
        depth += token.is("{") ? 1 : token.is("}") ? -1 : 0;
        reading.add(std::move(token));
        continue;
      }
      token = scanner.next();
      if (token.kind == Token::Kind::number) break;  // another marker, which may be of this file
      reading.add(std::move(token));
    }
    if (token.kind == Token::Kind::end) break;
    const std::string_view marker = text.substr(at, text.find('\n', at) - at);
    if (depth != 0 && !within && marker.find("\" 1") != marker.npos)
      within = {token.line, "has an #include within braces"};
  }
  const std::optional<Outside> found = reading.look();
  return found ? found : within;
}

std::optional<Outside> take_out_macros(std::string& text, std::string_view file) {
  const std::string own = " \"" + std::string(file) + "\"";
  std::optional<Outside> found;
  std::string without;
  bool of_file = false;
  int line = 0;
  for (std::size_t at = 0, end = 0; at < text.size(); at = end + 1, ++line) {
    end = std::min(text.find('\n', at), text.size());
    const std::string_view now(text.data() + at, end - at);
    const bool defines = now.starts_with("#define "), ends = now.starts_with("#undef ");
    if (now.starts_with("# ")) {
      of_file = now.find(own) != now.npos;
      line = number_at(now, 2) - 1;  // of what follows
    }
    if ((defines || ends) && of_file && !found) found = {line, defines ? "has a #define" : "has a #undef"};
    if (!defines && !ends) without += now;
    without += '\n';
  }
  text = std::move(without);
  return found;
}

std::vector<Outside> worth_a_look(std::string_view text) {
  std::vector<Token> tokens;
  Scanner scanner(text);
  for (Token token = scanner.next(); token.kind != Token::Kind::end; token = scanner.next()) {
    if (token.directive && token.text == "include") scanner.header_name();
    tokens.push_back(std::move(token));
  }
  std::vector<Outside> found;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const Around around(tokens, i);
    const int line = tokens[i].line;
    if (tokens[i].word("uintptr_t") || tokens[i].word("intptr_t") || (tokens[i].word("ptr") && around[-1].is("::")))
      found.push_back({line, "makes a number or text of an address (" + tokens[i].text + ")"});
    if (tokens[i].word("catch") && around[2].is(".")) found.push_back({line, "catches whatever is thrown"});
  }
  return found;
}

std::set<std::string, std::less<>> words_from(std::string_view text, std::string_view folder) {
  std::set<std::string, std::less<>> words;
  const std::string begin = fmt::format(" \"{}/", folder);
  bool from = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view line = text.substr(at, text.find('\n', at) - at);
    at += line.size() + 1;
    if (line.starts_with("# ")) {
      from = line.find(begin) != line.npos;
      continue;
    }
    Scanner scanner(from ? line : "");
    for (Token token = scanner.next(); token.kind != Token::Kind::end; token = scanner.next())
      if (token.kind == Token::Kind::word) words.insert(std::move(token.text));
  }
  return words;
}

}  // namespace lockstep::tools
