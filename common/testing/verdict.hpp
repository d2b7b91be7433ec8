// Verdicts of exercises and their parts, in words, from the outcomes of their tests.
//
// The test suite's name identifies the exercise: Lab21_2 → "21.2", Lab21_2a → part "21.2a".
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"

namespace lockstep::testing {

/// Called by a test, on every process, with the verdict of a run and its complete message. The first verdict other than
/// PASS replaces FAIL as the running test's verdict. It does not fail the test: ADD_FAILURE does.
void record_verdict(Verdict verdict, std::string_view message);

/// Called by a test that measures: records one line for the learner to compare with a prediction. It is printed below
/// PASS.
void note(const std::string& line);

/// The same for an open task, whose result is a score: "score 1.42 (what): words". A scoreboard keeps the values.
void note_score(const std::string& what, double value, const std::string& words);
struct Score {
  std::string what;
  double value = 0;
};
/// Parses a note that note_score has written.
std::optional<Score> score_in(const std::string& note);

/// The property of a test that ran cases: skipping others does not make it a skipped test.
inline constexpr const char* kHasCases = "has_cases";

/// The verdict of one exercise or part.
struct Judgement {
  std::string id;       ///< "21.2" or "21.2a"
  std::string verdict;  ///< in words: "PASS", "DEADLOCK", "BLOCKED BY 21.2a", …
  std::string message;  ///< complete; empty if passed
  std::string test;     ///< the test that decided it, "Lab21_2a.SumsAreExact"; empty if passed
  int passed = 0;       ///< number of tests
  int failed = 0;
  double seconds = 0;
  int skipped = 0;                 ///< number of tests
  std::string left_out;            ///< reason why the first of them was skipped
  std::vector<std::string> notes;  ///< measurements of passing tests

  bool ok() const { return verdict == "PASS"; }
};

/// Returns "21.2a" for "Lab21_2a"; empty for a suite that is not a lab's.
std::string id_of_suite(std::string_view suite);
/// Returns "Lab21_2a" for "21.2a".
std::string suite_of_id(std::string_view id);
/// Returns the exercise that a part belongs to: "21.2" for "21.2a".
std::string exercise_of(std::string_view id);

/// Returns the words for a test of `id` that ended with `verdict` and `message`: NOT IMPLEMENTED becomes "BLOCKED BY
/// 21.2a" if the `todo` that was reached belongs to another exercise or part.
std::string word_for(std::string_view id, Verdict verdict, std::string_view message);
/// Returns the verdict in the text of a failed expectation, if that is the message of `todo`, of a stub or of a misuse;
/// else FAIL.
Verdict verdict_in(std::string_view text);

/// Removes the rank from "rank 0: exercise 21.2 does not compile: …": a missing answer concerns no particular rank.
std::string without_rank(std::string_view message);

/// Rewrites a failed expectation's text: the test's own sentence first; below it, indented and in words, GoogleTest's
/// comparison ("a is 3, expected at most 2"), if its values are readable. Unchanged if the test has no sentence.
std::string sentence_first(std::string_view message);

/// Replaces nan by "not a number" and inf by "infinity" where they are separate words and not quoted.
std::string numbers_in_words(std::string text);

/// Returns the first phrase in a message that only users of the test library understand ("Which is: ", "nan"), or that
/// is repeated ("rank 0: " of "rank 0: rank 0: …"); "" if there is none. ./lab mutants rejects such phrases in the
/// tests' messages about planted mistakes.
std::string_view raw_text_in(std::string_view message);

/// Rank of a verdict; an exercise takes the highest of its tests. Errors (4) precede missing answers (3), blocked (2)
/// and skipped tests (1), and PASS (0).
int severity(const std::string& verdict);

/// True if a test failed for lack of memory, on which an algorithm's hint says nothing.
bool out_of_memory(std::string_view verdict, std::string_view message);

/// Returns a row for each part and, after them, one for each exercise: the total of its own tests and its parts. Tests
/// skipped next to one that passed leave the verdict PASS, with their count.
std::vector<Judgement> with_exercises(std::vector<Judgement> rows);

/// Writes JSON, one row per test suite: {"verdicts": [{"id", "verdict", "message", "test", "passed", "failed",
/// "seconds", "skipped", "left_out", "notes"}, …]}. Writes to a temporary file first, so a reader never sees half of
/// it. While a test runs, its suite's row is the last and has the verdict RUNNING, for a reader after a crash. Throws
/// Error(usage) if the file cannot be written or read.
void write_judgements(const std::filesystem::path& file, const std::vector<Judgement>& judgements);
std::vector<Judgement> read_judgements(const std::filesystem::path& file);
/// The same for a file's text; `name` names it in messages.
std::vector<Judgement> parse_judgements(const std::string& text, const std::string& name);

}  // namespace lockstep::testing
