// Verdicts on the learner's answers, kept between commands. One stands as long as nothing that it depends on changed:
// the answer, those of the learner's that were linked with it, the suite, and how all of it is compiled.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "common/testing/verdict.hpp"
#include "tools/course/paths.hpp"

namespace lockstep::tools {

using testing::Judgement;

/// The last verdict on an answer.
struct Record {
  Judgement judgement;
  bool stale = false;  ///< the answer says something else now
};
std::optional<Record> last_record(const Paths& paths, const Exercise& exercise);

/// Whether the answer is still what it was handed out as; also where there is none.
bool is_untouched(const Paths& paths, const Exercise& exercise);

/// Fingerprints of what a verdict is about.
struct Basis {
  std::string answer;  ///< of the answer alone
  std::string all;     ///< of everything that the verdict depends on
  bool operator==(const Basis&) const = default;
};

class Inputs {
 public:
  /// Reads the suite: all that answers and tests are compiled from, and the build's options.
  explicit Inputs(const Paths& paths);

  /// Of the tests of `exercise` linked with the learner's answer to it and to the needs in `mine`; the reference's to
  /// other needs.
  Basis of(const Exercise& exercise, const std::set<std::string>& mine) const;

 private:
  const Paths& paths_;
  std::uint64_t suite_;
};

/// The verdict that was kept for just this, if there is one.
std::optional<Judgement> kept_verdict(const Paths& paths, const Exercise& exercise, const Basis& basis);
void keep_verdict(const Paths& paths, const Exercise& exercise, const Judgement& verdict, const Basis& basis);

}  // namespace lockstep::tools
