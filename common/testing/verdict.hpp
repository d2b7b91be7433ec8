// Verdicts of exercises and their parts, in words, from the outcome of their tests.
//
// The test suite's name says which exercise a test judges: Lab21_2 → "21.2", Lab21_2a → part "21.2a".
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"

namespace lockstep::testing {

/// Called by a test, on every process, with how a run ended and its complete message: the first verdict that is not
/// PASS is what the running test will be called, instead of FAIL. It does not fail the test: ADD_FAILURE does.
void record_verdict(Verdict verdict, std::string_view message);

/// Called by a test that measures: what a learner is to compare with a prediction, in one line. It stands below PASS.
void note(const std::string& line);

/// The same of an open task, which is judged by how much: "score 1.42 (what): words". A scoreboard keeps the values.
void note_score(const std::string& what, double value, const std::string& words);
struct Score {
  std::string what;
  double value = 0;
};
/// Of a note that note_score has written.
std::optional<Score> score_in(const std::string& note);

/// The property of a test that ran cases: what else of it was skipped does not make it a skipped test.
inline constexpr const char* kHasCases = "has_cases";

/// What one exercise or part is called.
struct Judgement {
  std::string id;       ///< "21.2" or "21.2a"
  std::string verdict;  ///< the word: "PASS", "DEADLOCK", "BLOCKED BY 21.2a", …
  std::string message;  ///< complete; empty when passed
  std::string test;     ///< the test that decided it, "Lab21_2a.SumsAreExact"; empty when passed
  int passed = 0;       ///< tests
  int failed = 0;
  double seconds = 0;
  int skipped = 0;                 ///< tests
  std::string left_out;            ///< why the first of them was skipped
  std::vector<std::string> notes;  ///< what passing tests measured

  bool ok() const { return verdict == "PASS"; }
};

/// "Lab21_2a" → "21.2a"; empty for a suite that is not a lab's.
std::string id_of_suite(std::string_view suite);
/// "21.2a" → "Lab21_2a".
std::string suite_of_id(std::string_view id);
/// "21.2a" → "21.2": the exercise that a part belongs to.
std::string exercise_of(std::string_view id);

/// The word for a test of `id` that ended with `verdict` and `message`: NOT IMPLEMENTED becomes "BLOCKED BY 21.2a" when
/// the `todo` that was reached belongs to another exercise or part.
std::string word_for(std::string_view id, Verdict verdict, std::string_view message);
/// The verdict of an exception that left the test's body, from its text: the message of `todo`, of a stub, of a misuse.
Verdict verdict_of_exception(std::string_view text);

/// "rank 0: exercise 21.2 does not compile: …" without the rank: what is missing in a file is no rank's.
std::string without_rank(std::string_view message);

/// What a failed expectation says: the test's own sentence first; below it, indented and in words, what GoogleTest
/// compared ("a is 3, expected at most 2"), where its values can be read. As it was where the test says nothing.
std::string sentence_first(std::string_view message);

/// "not a number" for nan and "infinity" for inf, wherever such a word stands by itself and is not quoted.
std::string numbers_in_words(std::string text);

/// The first phrase in a message that only who knows the test library understands ("Which is: ", "nan"), or that is
/// there twice ("rank 0: " of "rank 0: rank 0: …"); "" where there is none. ./lab mutants wants none of what the tests
/// say of any planted mistake.
std::string_view raw_text_in(std::string_view message);

/// Which of two verdicts an exercise is called: the higher one. What is wrong (4) comes before what is missing (3),
/// what waits for something else (2), what was skipped (1) and PASS (0).
int severity(const std::string& verdict);

/// A row for each part and, after them, one for each exercise: its own tests' and its parts' together. What was skipped
/// beside something that passed leaves the verdict PASS, with its count.
std::vector<Judgement> with_exercises(std::vector<Judgement> rows);

/// JSON, one row a test suite: {"verdicts": [{"id", "verdict", "message", "test", "passed", "failed", "seconds",
/// "skipped", "left_out", "notes"}, …]}.
/// Writes to a temporary file first, so a reader never sees half of it. While a test runs, its suite's row stands last
/// with the verdict RUNNING: what a reader finds after a crash. Throws Error(usage) where the file cannot be written or
/// read.
void write_judgements(const std::filesystem::path& file, const std::vector<Judgement>& judgements);
std::vector<Judgement> read_judgements(const std::filesystem::path& file);
/// The same of a file's text; `name` is what messages call it.
std::vector<Judgement> parse_judgements(const std::string& text, const std::string& name);

}  // namespace lockstep::testing
