// The part of C++ that answers are written in, and what lies outside of it: memory as such, casts but between numbers,
// the preprocessor but for #include, the assembler, and names that are the compiler's or the runtime's own. No
// exercise needs any of it, and each piece of it can reach what an answer should not see: the tests, another rank, the
// ledgers. ./lab check warns of it, and ./lab grade refuses it.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::tools {

struct Outside {
  int line = 0;     ///< of the answer, from 1
  std::string what; /**< "has reinterpret_cast": a verb and the construct */

  /// "line 12 has reinterpret_cast, which no lab answer needs".
  std::string sentence() const;
};

/// The first construct of an answer's text that is outside of the language. Comments and literals may say anything.
std::optional<Outside> outside_the_language(std::string_view text);

/// The same for the compiler's preprocessed text of `file`, of which only the lines that come from `file` count: a
/// macro of a header can put words together that stand nowhere in the answer.
std::optional<Outside> outside_once_preprocessed(std::string_view text, std::string_view file);

/// Removes the macro definitions from a text that has them (-dD), and returns the first macro that `file` itself
/// defines. Only the compiler knows where a comment or a literal of an odd text ends, so no macro can hide from it.
std::optional<Outside> take_out_macros(std::string& text, std::string_view file);

/// Constructs that are in the language, but worth a person's look: they can reach beyond an answer.
std::vector<Outside> worth_a_look(std::string_view text);

/// The words of all lines of a preprocessed text that come from files below `folder`: what its headers declare is among
/// them.
std::set<std::string, std::less<>> words_from(std::string_view text, std::string_view folder);

}  // namespace lockstep::tools
