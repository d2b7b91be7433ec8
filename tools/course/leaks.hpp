// Finds answers in a text. ./lab handout checks everything that it hands out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lockstep::tools {

/// Lines of an answer, found in another text.
struct Leak {
  std::string id;     ///< "21.2a", whose answer it is
  int line = 0;       ///< of the text, where they begin
  std::string words;  ///< they, without blanks
};

/// The answers of a course: the text between "// lab ID begin" and "// lab end".
///
/// A text has a leak if it has two lines in a row of one answer, or all of an answer of one line, of at least 40
/// characters together. Blanks, quotation marks and comments do not count, so neither another indentation nor another
/// line length hides one, and neither does a comment around it. Single lines, and short ones, may be shared: interfaces
/// and given code call the same functions.
class Leaks {
 public:
  /// Adds the answers in `solution`. Throws what replace_regions throws.
  void add(std::string_view solution, std::string_view file);
  /// The first in `text`.
  std::optional<Leak> find(std::string_view text) const;

 private:
  struct Passage {
    std::string id, words;
  };
  std::unordered_multimap<std::size_t, Passage> passages_;  // by the hash of their first 40 characters
};

}  // namespace lockstep::tools
