// Output of tests that ./lab check runs.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "common/support/text/counted.hpp"
#include "tools/course/paths.hpp"

namespace lockstep::tools {

/// Output of the tests and of the answer's show(…), each up to a screenful or two, or up to what was asked for with
/// --trace. However much an answer shows, an explanation is complete.
class Printed {
 public:
  explicit Printed(bool drawings) : most_(drawings ? 240 : 80) {}
  void add(std::string_view line) {
    int& lines = line.starts_with("[rank ") ? shown_ : said_;  // as show begins
    if (++lines <= most_)
      text_.append(line).append("\n");
    else
      ++left_out_;
  }
  /// All so far, with an empty line before and after it.
  std::string take() {
    std::string text;
    if (!text_.empty()) text = "\n" + indented(text_, "  ");
    if (left_out_ > 0)
      text += fmt::format("  … and {} more; --ranks and --size ask for one case\n", counted(left_out_, "line"));
    if (!text_.empty()) text += "\n";
    text_.clear(), shown_ = said_ = left_out_ = 0;
    return text;
  }

 private:
  std::string text_;
  int shown_ = 0, said_ = 0, left_out_ = 0, most_;
};

}  // namespace lockstep::tools
