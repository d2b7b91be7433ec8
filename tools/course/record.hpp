// Verdicts on the learner's answers, kept between commands. One stands as long as nothing that it depends on changed:
// the answer, those of the learner's that were linked with it, the suite, and how all of it is compiled.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

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

/// True if the answer is still as it was handed out, or missing.
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

  /// Fingerprints of the tests of `exercise` linked with the learner's answer to it and to the needs in `mine`, and
  /// with the reference's to other needs.
  Basis of(const Exercise& exercise, const std::set<std::string>& mine) const;

 private:
  const Paths& paths_;
  std::uint64_t suite_;
};

/// Findings of an exercise's tests, with fingerprints of the files that were linked and run.
struct Tested {
  Judgement whole;
  std::vector<Judgement> parts;
  std::string program;  ///< of the program of tests
  std::string object;   ///< of the answer's object in it
  bool printed = false;
};

/// The verdict that was kept for just this, if there is one.
std::optional<Judgement> kept_verdict(const Paths& paths, const Exercise& exercise, const Basis& basis);
/// All that was found, where that can stand for running `program` again: these very bytes were run, their tests came to
/// an end by themselves, and printed nothing that would be missed.
std::optional<Tested> kept_findings(const Paths& paths, const Exercise& exercise, const Basis& basis,
                                    const std::string& program);
void keep_verdict(const Paths& paths, const Exercise& exercise, const Tested& tested, const Basis& basis);

/// True if the learner's answer is in another object than the one that was judged, even if its text is the same: it may
/// include files from anywhere.
bool was_compiled_anew(const Paths& paths, const Exercise& exercise);
void forget_verdict(const Paths& paths, const Exercise& exercise);

/// Fingerprint of a file's bytes; "" if it cannot be read.
std::string fingerprint_of_file(const std::filesystem::path& file);
/// The object that the learner's answer was compiled to; "" where it was not.
std::filesystem::path answers_object(const Paths& paths, const Exercise& exercise);

}  // namespace lockstep::tools
