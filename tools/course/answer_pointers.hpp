// Pointers in an answer are for `->` and `*`. Arithmetic on one, and an index, reach memory that is not the answer's,
// and no exercise needs them: a container checks its index.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tools/course/cpp_tokens.hpp"

namespace lockstep::tools {

/// Reads an answer's tokens in order, and knows which names in sight are pointers: "Foo* p", "auto p = &x". Types are
/// those of the language, of the answer, and words such as `Foo`.
class Pointers {
 public:
  /// "indexes the pointer p", or "" where nothing is computed from an address.
  std::string at(const Around& around);

 private:
  void note_scope(const Around& around);
  void note_name(const Around& around);
  bool is_type(const Around& around) const;
  bool is_pointer(const Around& around) const;
  bool is_address(const Around& around, int& behind) const;
  std::string use_of_name(const Around& around) const;
  std::string use_of_address(const Around& around) const;
  std::string given_to_library(const Around& around) const;

  std::set<std::string> types_, pointer_types_, members_, texts_;  // texts_: const char*
  std::multiset<std::string> names_;
  std::vector<std::pair<int, std::string>> in_scope_;  // the depth of braces at which a name ends
  std::vector<bool> of_class_;                         // each open brace
  int parentheses_ = 0;
  bool class_begins_ = false;
};

}  // namespace lockstep::tools
