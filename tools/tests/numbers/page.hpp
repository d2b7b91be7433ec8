// A page of the documentation whose numbers are computed. A test says a passage of it, each number as the suite
// computes it, and the page must have it word for word; a number that nothing computes is cited, with its source.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

namespace lockstep::numbers {

/// A number as pages write it: "2,800", "0.086", "−0.14".
std::string fixed(double value, int decimals = 0);
/// To so many significant digits: 1063.8 to two is "1,100".
std::string rounded(double value, int digits);

class Page {
 public:
  /// `path` from the root of the suite. Throws where there is no such file.
  explicit Page(const std::string& path);

  /// The page contains `words`, with any white space between them and these numbers in place of each {}. Fails the test
  /// where it does not, or has other numbers in their place, which it names, with the line.
  void says(const std::string& words, std::initializer_list<std::string> numbers);
  /// These words are in the page; their numbers are somebody else's, or given, as `source` says.
  void cites(const std::string& source, std::initializer_list<std::string> words);

  /// Numbers that look computed (with a unit, a decimal point, a thousands separator, or behind "=") and that no says
  /// and no cites knows, each with its line and the words around it. A title or a question gives its own.
  std::vector<std::string> rest() const;

  /// A failure for each number of rest(); prints the coverage.
  void expect_all_known() const;

  /// "141 numbers look computed: 96 are, 40 are cited".
  std::string coverage() const;

 private:
  enum class Known : char { nothing, computed, cited };
  struct Number {
    std::size_t begin = 0, end = 0;
  };
  bool mark(const std::string& words, Known known);
  std::string line(std::size_t at) const;
  std::vector<Number> numbers() const;

  std::string path_, text_, looked_at_;  // the same length; in looked_at_ code and titles are blanks
  std::vector<std::size_t> lines_;       // of each character
  std::vector<Known> known_;
};

}  // namespace lockstep::numbers
