#include "common/testing/listener.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>

namespace lockstep::testing {
namespace {

constexpr const char* kVerdictKey = "verdict";
constexpr const char* kMessageKey = "verdict_message";
constexpr const char* kNoteKey = "note";  // followed by its number

/// Returns the value that the test recorded under `key`; null if there is none.
const char* recorded(const ::testing::TestResult& result, std::string_view key) {
  for (int i = 0; i < result.test_property_count(); ++i) {
    if (result.GetTestProperty(i).key() == key) return result.GetTestProperty(i).value();
  }
  return nullptr;
}

/// Returns the notes in the order in which they were made.
std::vector<std::string> notes_of(const ::testing::TestResult& result) {
  std::vector<std::string> notes;
  while (const char* line = recorded(result, kNoteKey + std::to_string(notes.size()))) notes.emplace_back(line);
  return notes;
}

/// Returns the first failed expectation, or where the test was skipped; null if there is neither.
const ::testing::TestPartResult* first_part(const ::testing::TestResult& result) {
  for (int i = 0; i < result.total_part_count(); ++i) {
    const auto& part = result.GetTestPartResult(i);
    if (part.failed() || part.skipped()) return &part;
  }
  return nullptr;
}

/// True if a test's failure is not an expectation but an exception that left the test.
bool is_exception(const ::testing::TestPartResult& part) { return part.failed() && !part.file_name(); }

bool is_about_the_file(const std::string& word) {
  return word.starts_with("BLOCKED BY") || word == to_string(Verdict::not_implemented) ||
         word == to_string(Verdict::does_not_compile);
}

/// Returns the judgement of a test that failed or was skipped; `thrown` is the exception that left it, if one did.
Judgement judgement_of(const ::testing::TestInfo& test, const std::string& id, const std::optional<Caught>& thrown) {
  const ::testing::TestResult& result = *test.result();
  Judgement judgement{.id = id, .test = fmt::format("{}.{}", test.test_suite_name(), test.name())};
  const ::testing::TestPartResult* part = first_part(result);
  if (part) judgement.message = sentence_first(part->message());
  if (result.Skipped()) {
    judgement.verdict = fmt::format("SKIPPED ({})", judgement.message);
  } else if (const char* word = recorded(result, kVerdictKey)) {
    judgement.message = recorded(result, kMessageKey);
    judgement.verdict = word;
  } else if (thrown && part && is_exception(*part)) {
    judgement.message = thrown->what;
    judgement.verdict = word_for(id, thrown->verdict, thrown->what);
  } else {
    judgement.verdict = word_for(id, verdict_in(judgement.message), judgement.message);
  }
  if (is_about_the_file(judgement.verdict)) judgement.message = without_rank(judgement.message);
  judgement.message = numbers_in_words(std::move(judgement.message));
  return judgement;
}

/// "labs/week21_data_parallel/ring_all_reduce_test.cpp:68"; compilers see the file from the build's folder.
std::string place_of(const ::testing::TestInfo& test) {
  std::string_view file = test.file() ? test.file() : "";
  while (file.starts_with("../")) file.remove_prefix(3);
  return file.empty() ? "" : fmt::format("{}:{}", file, test.line());
}

/// "3 tests", or, where the filter chose some, "3 chosen tests of 9"; `id` is a row's: an exercise has its parts'
/// tests.
std::string tests_in_words(const ::testing::UnitTest& program, const std::string& id, int ran) {
  int all = 0, chosen = 0;
  for (int i = 0; i < program.total_test_suite_count(); ++i) {
    const ::testing::TestSuite& suite = *program.GetTestSuite(i);
    const std::string of = id_of_suite(suite.name());
    if (of != id && exercise_of(of) != id) continue;
    all += suite.total_test_count(), chosen += suite.test_to_run_count();
  }
  return chosen == all ? fmt::format("{} tests", ran) : fmt::format("{} chosen tests of {}", ran, all);
}

std::string current_id() {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  return test ? id_of_suite(test->test_suite_name()) : "";
}

}  // namespace

void record_verdict(Verdict verdict, std::string_view message) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  if (verdict == Verdict::pass || !test || recorded(*test->result(), kVerdictKey)) return;
  ::testing::Test::RecordProperty(kVerdictKey, word_for(current_id(), verdict, message));
  ::testing::Test::RecordProperty(kMessageKey, std::string(message));
}

void note(const std::string& line) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  if (test) ::testing::Test::RecordProperty(kNoteKey + std::to_string(notes_of(*test->result()).size()), line);
}

void note_score(const std::string& what, double value, const std::string& words) {
  note(fmt::format("score {:.3f} ({}): {}", value, what, words));
}

Judgement& VerdictListener::row(const std::string& id) {
  auto found = std::find_if(rows_.begin(), rows_.end(), [&](const Judgement& r) { return r.id == id; });
  if (found != rows_.end()) return *found;
  return rows_.emplace_back(Judgement{.id = id, .verdict = "PASS"});
}

void VerdictListener::OnTestStart(const ::testing::TestInfo& test) {
  thrown_.reset();
  std::string id = id_of_suite(test.test_suite_name());
  if (file_.empty() || id.empty()) return;
  auto rows = rows_;
  rows.push_back({.id = id,
                  .verdict = "RUNNING",
                  .message = place_of(test),
                  .test = fmt::format("{}.{}", test.test_suite_name(), test.name())});
  write_judgements(file_, rows);
}

void VerdictListener::OnTestPartResult(const ::testing::TestPartResult& part) {
  if (is_exception(part) && std::current_exception()) thrown_ = caught({});
}

void VerdictListener::OnTestEnd(const ::testing::TestInfo& test) {
  const ::testing::TestResult& result = *test.result();
  std::string id = id_of_suite(test.test_suite_name());
  std::string name = id.empty() ? test.test_suite_name() : id;  // the suite's own tests have no id
  Judgement& so_far = row(name);
  so_far.seconds += static_cast<double>(result.elapsed_time()) * 1e-3;
  if (result.Passed() || (result.Skipped() && recorded(result, kHasCases))) {
    ++so_far.passed;
    for (std::string& line : notes_of(result)) so_far.notes.push_back(std::move(line));
    // A skipped test does not change the verdict if another one passed.
    if (so_far.verdict.starts_with("SKIPPED")) so_far.verdict = "PASS", so_far.message.clear(), so_far.test.clear();
    return;
  }
  Judgement judgement = judgement_of(test, name, thrown_);
  if (result.Failed()) {
    ++so_far.failed;
    if (print_) print_failure(test, judgement);
  } else {
    if (++so_far.skipped == 1) so_far.left_out = judgement.message;
    if (so_far.passed > 0) return;
  }
  if (severity(judgement.verdict) > severity(so_far.verdict)) {
    so_far.verdict = judgement.verdict;
    so_far.message = judgement.message;
    so_far.test = judgement.test;
  }
}

void VerdictListener::print_failure(const ::testing::TestInfo& test, const Judgement& failure) const {
  // A missing answer is reported once, in the row; errors are explained test by test.
  if (severity(failure.verdict) < 4) return;
  fmt::print("{} {} in {}.{}:\n{}\n", failure.id, failure.verdict, test.test_suite_name(), test.name(),
             failure.message);
  const ::testing::TestResult& result = *test.result();
  for (int i = 0, failures = 0; i < result.total_part_count(); ++i) {
    const auto& part = result.GetTestPartResult(i);
    if (part.failed() && ++failures > 1)
      fmt::print("{}:{}: {}\n", part.file_name() ? part.file_name() : "", part.line_number(),
                 numbers_in_words(sentence_first(part.message())));
  }
  fmt::print("\n");
  std::fflush(stdout);
}

void VerdictListener::OnTestProgramEnd(const ::testing::UnitTest& program) {
  if (!file_.empty()) write_judgements(file_, rows_);
  if (!print_) return;
  for (const Judgement& judgement : with_exercises(rows_)) {
    fmt::print("{} {} ({} of {}, {:.2f} s)", judgement.id, judgement.verdict, judgement.passed,
               tests_in_words(program, judgement.id, judgement.passed + judgement.failed), judgement.seconds);
    bool missing = severity(judgement.verdict) == 3 || severity(judgement.verdict) == 2;
    if (judgement.ok() && judgement.skipped > 0) fmt::print("; {} skipped: {}", judgement.skipped, judgement.left_out);
    fmt::print("{}\n", missing ? ": " + judgement.message : "");
  }
  if (program.test_to_run_count() == 0) fmt::print("no test fits the filter\n");
  std::fflush(stdout);
}

}  // namespace lockstep::testing
