#include "tools/course/compiler_error.hpp"

#include <algorithm>
#include <cstdlib>
#include <span>
#include <sstream>
#include <utility>

namespace lockstep::tools {
namespace {

std::string file_name(std::string_view path) {
  auto slash = path.rfind('/');
  return std::string(slash == path.npos ? path : path.substr(slash + 1));
}

/// The line number in "path:LINE:…" where `line` names `source`, by whatever path; 0 where it does not. The compiler
/// may have been given another path to the same file: ccache makes paths relative.
int line_in(const std::string& line, std::string_view source) {
  const std::string name = file_name(source) + ":";
  for (auto at = line.find(name); at != line.npos; at = line.find(name, at + 1)) {
    const int number = std::atoi(line.c_str() + at + name.size());
    if (number > 0 && (at == 0 || line[at - 1] == '/' || line[at - 1] == ' ')) return number;
  }
  return 0;
}

/// GCC quotes with ‘ and ’ in many languages, English among them.
std::string with_plain_quotes(std::string text) {
  for (const std::string_view quote : {"‘", "’"})
    for (auto at = text.find(quote); at != text.npos; at = text.find(quote, at)) text.replace(at, quote.size(), "'");
  return text;
}

/// "stl_vector.h:372" of "/usr/include/c++/12/bits/stl_vector.h:372:5: "; "" where it is nothing like that.
std::string place_in_header(const std::string& position) {
  const std::string name = file_name(position.substr(0, position.find(':')));
  const int line = line_in(position, name);
  return line > 0 ? name + ":" + std::to_string(line) : "";
}

struct Phrase {
  const char* part;   ///< of the compiler's message
  const char* words;  ///< its meaning
};

constexpr const char* kSemicolon = "A semicolon is missing, at the end of this line or the one before.";
constexpr const char* kUnclosed = "A brace '{' was opened but never closed.";
constexpr const char* kBraceTooMany = "There is one closing brace '}' too many.";
constexpr const char* kOutside = "This is outside any function: look for an extra closing brace '}' above.";
constexpr const char* kStillInside =
    "The function above has not ended yet: it lacks a closing brace '}', or has one opening brace '{' too many.";
constexpr const char* kComma = "A comma is missing before this, or a '{' was opened but never closed.";
constexpr const char* kParenthesis = "A parenthesis '(' was opened but never closed.";
constexpr const char* kNoReturn = "The function must return a value, but some path through it has no return.";
constexpr const char* kMember =
    "That type has no member of this name: check the spelling, and the header that declares the type.";
constexpr const char* kUnknownName =
    "The compiler does not know this name here: check the spelling, declare it first, or see whether the block that "
    "declares it ended too early, or has no braces.";
constexpr const char* kNoMatch =
    "There is a function of that name, but none takes these arguments: compare their number, order and types with its "
    "declaration.";
constexpr const char* kNarrowing = "The value may not fit the type: convert it explicitly, with static_cast<…>(…).";
constexpr const char* kWrongType = "A value of one type was given where another is expected.";
constexpr const char* kCapture = "A lambda uses a variable of the enclosing function: capture it, [name].";
constexpr const char* kCaptureMember =
    "A lambda uses a member of its class: copy it under a name of its own, [x = x_], and use the copy x.";
constexpr const char* kNameless =
    "The object has no name, so it would be destroyed at once. Name it: NoSync quiet(ddp);";
constexpr const char* kOwnHeader = "Only lab files are graded: move what it needs into this file.";
constexpr const char* kInclude =
    "The included file does not exist: paths start at the top of the repository, or beside your file.";

// The first that fits wins: the particular ones of this suite stand before the general ones. GCC's words, then Clang's.
constexpr Phrase kPhrases[] = {
    {"missing definition of",
     "The header declares this function, but the file does not define it: name and arguments must be exactly those in "
     "the header."},
    {"the file is missing", "It was renamed or deleted: give it back its name, or start over with ./lab reset."},
    {"multiple definition of 'main'", "Delete your main(): the tests have one, and call your functions."},
    {"multiple definition of",
     "Two files define the same name: put your own helpers into an unnamed namespace, namespace { … }."},
    {"operator[]",
     "A Slice has no operator[]: lab code slices, sends and adds memory but never touches an element, because the "
     "memory may be on a GPU."},
    {"lockstep::Slice' has no member", "A Slice has no member of that name; common/slice.hpp lists what it can do."},
    {"lockstep::Rank' has no member", "A Rank has no member of that name; common/rank.hpp lists what it can do."},
    {"has no member named", kMember},
    {"no member named", kMember},
    {"at end of input", kUnclosed},
    {"expected '}'", kComma},
    {"expected ';'", kSemicolon},
    {"expected ',' or ';'", kSemicolon},
    {"expected ')' before ';'", kParenthesis},
    {"expected ')' before '{'", kParenthesis},
    {"expected ')'", "A comma is missing before this, or a parenthesis '(' was opened but never closed."},
    {"function-definition is not allowed here", kStillInside},
    {"function definition is not allowed here", kStillInside},
    {"declared void", kOutside},
    {"expected constructor, destructor, or type conversion", kOutside},
    {"expected initializer before", "A brace '{' or a semicolon is missing at the end of the line above."},
    {"expected function body after", "A brace '{' is missing after this."},
    {"expected primary-expression",
     "A value is missing here: something was left out, or there is one operator too many."},
    {"expected expression", "A value is missing here: something was left out, or there is one operator too many."},
    {"no return statement in function returning non-void", kNoReturn},
    {"control reaches end of non-void", kNoReturn},
    {"does not return a value", kNoReturn},
    {"expected declaration before '}'", kBraceTooMany},
    {"extraneous closing brace", kBraceTooMany},
    {"expected unqualified-id", kOutside},
    {"missing terminating", "A quotation mark is missing."},
    {"did you mean 'lockstep::week21::", "It is in namespace week21: write week21:: before the name."},
    {"was not declared in this scope", kUnknownName},
    {"undeclared identifier", kUnknownName},
    {"is not a member of 'std'",
     "The standard library has no such name in what is included: check the spelling, or "
     "#include the header that has it."},
    {"is not a member of", kUnknownName},
    {"does not name a type", kUnknownName},
    {"too few arguments", "The function takes more arguments than it was given: see its declaration."},
    {"too many arguments", "The function was given more arguments than it takes: see its declaration."},
    {"NoSync::NoSync()", kNameless},
    {"initialization of 'NoSync'", kNameless},
    {"no matching function", kNoMatch},
    {"no matching member function", kNoMatch},
    {"narrowing conversion", kNarrowing},
    {"cannot be narrowed", kNarrowing},
    {"invalid conversion", kWrongType},
    {"could not convert", kWrongType},
    {"cannot convert", kWrongType},
    {"no viable conversion", kWrongType},
    {"assignment of read-only", "This is const: it cannot be changed."},
    {"const lockstep::Rank' as 'this'",
     "A const Rank can only be queried; to start work, copy it first, as in Rank me = tp.group;"},
    {"discards qualifiers", "This is const: only its const member functions can be called."},
    {"'this' was not captured", kCaptureMember},
    {"'this' cannot be implicitly captured", kCaptureMember},
    {"is not captured", kCapture},
    {"cannot be implicitly captured", kCapture},
    {"redefinition of", "This is defined twice."},
    {"redeclaration of", "This name is declared twice in the same block."},
    {"No such file or directory", kInclude},
    {"file not found", kInclude},
    {"return-statement with a value", "The function returns nothing, but a value is returned."},
    {"return-statement with no value", "The function must return a value."},
};

constexpr Phrase kWarnings[] = {
    {"Rank::region(", "The region ends at once and encloses nothing. Name it: Scope scope = me.region(…);"},
    {"ignoring return value", "The call does nothing for you unless you keep what it returns."},
};

/// Meaning of the first of `phrases` that is in the message; "" if none is.
std::string meaning(std::string_view message, std::span<const Phrase> phrases) {
  for (const Phrase& phrase : phrases)
    if (message.find(phrase.part) != message.npos) return phrase.words;
  return "";
}

}  // namespace

CompilerError first_error(std::string_view log, std::string_view source) {
  // If an error is in a header, the line of `source` that led to it stands before the error (an include, the use of a
  // template), and some notes on it stand after.
  std::istringstream in{std::string(log)};
  std::string line, message, header;
  int led_to_it = 0, included = 0;
  while (std::getline(in, line)) {
    auto error = line.find("error: ");
    int here = line_in(line, source);
    if (error != line.npos && !message.empty()) break;
    if (error != line.npos) {
      message = with_plain_quotes(line.substr(error + 7));
      if (here == 0) header = place_in_header(line.substr(0, error));
    }
    // An include says less than the use behind it, and comes first.
    if (here > 0 && line.find(" from ") != line.npos && line.find("required from") == line.npos)
      included = included == 0 ? here : included;
    else if (here > 0 && (error != line.npos || led_to_it == 0))
      led_to_it = here;
    if (!message.empty() && led_to_it > 0) break;
  }
  if (led_to_it == 0) led_to_it = included;
  if (!header.empty() && led_to_it > 0) message += " (in " + header + ", which it uses)";
  if (message.empty()) message = "the compiler failed without naming an error";
  return {led_to_it, message};
}

std::vector<std::string> warnings_in(std::string_view log, std::string_view source) {
  constexpr std::string_view kWarning = ": warning: ";
  std::vector<std::string> warnings;
  std::istringstream in{std::string(log)};
  for (std::string line; std::getline(in, line);) {
    const auto at = line.find(kWarning);
    const int here = at == line.npos ? 0 : line_in(line.substr(0, at) + ":", source);
    if (here == 0) continue;
    std::string text =
        file_name(source) + ":" + std::to_string(here) + ": " + with_plain_quotes(line.substr(at + kWarning.size()));
    if (const std::string words = meaning(text, kWarnings); !words.empty()) text += " — " + words;
    if (std::find(warnings.begin(), warnings.end(), text) == warnings.end()) warnings.push_back(std::move(text));
  }
  return warnings;
}

std::string file_of_first_error(std::string_view log) {
  const auto error = log.find(": error: ");
  if (error == log.npos) return "";
  const auto begin = log.rfind('\n', error) + 1;                       // 0 where there is none
  const std::string_view position = log.substr(begin, error - begin);  // PATH:LINE or PATH:LINE:COLUMN
  return std::string(position.substr(0, position.find(':')));
}

std::string explain_undefined(std::string_view log, std::string_view source) {
  constexpr std::string_view kUndefined = "undefined reference to ";
  const std::string name = file_name(source);
  std::istringstream in{std::string(log)};
  for (std::string line; std::getline(in, line);) {
    line = with_plain_quotes(line);
    const auto at = line.find(kUndefined);
    // Without a line number both linkers name the file: "f.cpp:(.text+0x5): …", "f.cpp:function g(): error: …".
    const bool here = at != line.npos && (line_in(line, source) > 0 || line.starts_with(name + ":") ||
                                          line.find("/" + name + ":") < at || line.find(":" + name + ":") < at);
    if (!here) continue;
    std::string what = line.substr(at + kUndefined.size());  // 'f(int)' or, by ld, `f(int)'
    std::erase(what, '\'');
    std::erase(what, '`');
    std::string text = name;
    if (const int number = line_in(line, source); number > 0) text += ":" + std::to_string(number);
    if (what.find('(') == what.npos)
      return text + ": you use " + what + ", which is declared but not defined anywhere.";
    return text + ": you call " + what +
           ", but no definition with these arguments exists. Write one, or compare name, namespace and arguments with "
           "those of your definition.";
  }
  return "";
}

std::string explain_compiler_error(std::string_view message) { return meaning(message, kPhrases); }

std::string explain(std::string_view log, std::string_view source) {
  CompilerError error = first_error(log, source);
  std::string text = file_name(source);
  if (error.line > 0) text += ":" + std::to_string(error.line);
  text += ": " + error.message;
  std::string words = explain_compiler_error(error.message);
  return words.empty() ? text : text + " — " + words;
}

std::string explain_alone(std::string_view log, std::string_view source) {
  std::string text = explain(log, source);
  const std::string_view of_any_file = kInclude;
  const bool of_ours = text.find(".hpp") < text.find(of_any_file);  // a header in our style, not the system's
  if (of_ours && text.ends_with(of_any_file))
    text.replace(text.size() - of_any_file.size(), of_any_file.size(), kOwnHeader);
  return text;
}

}  // namespace lockstep::tools
