#include "common/testing/handed_over.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <deque>
#include <fstream>
#include <map>
#include <vector>

#include "common/error.hpp"
#include "common/runtime/processes/bytes.hpp"
#include "common/runtime/processes/results.hpp"
#include "common/support/text/files.hpp"
#include "common/testing/options.hpp"

namespace lockstep::testing {
namespace {

using processes::from_bytes, processes::to_bytes;

std::string running_test() {
  const auto& test = *::testing::UnitTest::GetInstance()->current_test_info();
  return fmt::format("{}.{}", test.test_suite_name(), test.name());
}

/// "the run with 4 ranks, size 13, perturbed by 2".
std::string which_run(const Case& c, std::optional<std::uint64_t> perturb) {
  return fmt::format("the run with {} ranks, size {}{}", c.ranks, c.size,
                     perturb ? fmt::format(", perturbed by {}", *perturb) : "");
}

bool same_bits(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }

/// Removes from each rank the first values that equal those of the rank before it, and returns how many these are:
/// after a large all-reduce all ranks hold the same.
std::vector<std::size_t> take_out_common(std::vector<Values>& values) {
  std::vector<std::size_t> common(values.size());
  for (std::size_t rank = values.size(); rank-- > 1;) {
    Values& own = values[rank];
    const Values& before = values[rank - 1];
    const auto end = std::mismatch(own.begin(), own.end(), before.begin(), before.end(), same_bits).first;
    common[rank] = static_cast<std::size_t>(end - own.begin());
    own.erase(own.begin(), end);
  }
  return common;
}

/// Values that are floats, which most are, by rank; these are taken out as well.
std::vector<std::vector<float>> take_out_floats(std::vector<Values>& values) {
  std::vector<std::vector<float>> floats(values.size());
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    if (!std::all_of(values[rank].begin(), values[rank].end(),
                     [](double value) { return same_bits(static_cast<float>(value), value); }))
      continue;
    floats[rank].assign(values[rank].begin(), values[rank].end());
    values[rank].clear();
  }
  return floats;
}

/// Throws Error(usage) where a rank before it has fewer.
void put_back(std::vector<Values>& values, const std::vector<std::size_t>& common,
              const std::vector<std::vector<float>>& floats) {
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    if (!floats.at(rank).empty()) values[rank].assign(floats[rank].begin(), floats[rank].end());
    const std::size_t count = common.at(rank);
    if (count == 0) continue;
    if (rank == 0 || count > values[rank - 1].size()) throw Error(Verdict::usage, "what was handed over is damaged");
    const Values& before = values[rank - 1];
    values[rank].insert(values[rank].begin(), before.begin(), before.begin() + static_cast<std::ptrdiff_t>(count));
  }
}

struct Run {
  std::string which;    // "the run with 4 ranks, size 13", "speedup(12, 4)"
  std::string outcome;  // in bytes
};
using Handed = std::map<std::string, std::deque<Run>>;  // by test, in the order of its runs and calls

Handed& all_handed() {
  static Handed handed = [] {
    Handed read;
    const std::string bytes = read_file(test_options().outcomes_of);
    processes::Reader reader(bytes);
    while (!reader.at_end()) {
      std::string test;
      Run run;
      reader(test, run.which, run.outcome);
      read[test].push_back(std::move(run));
    }
    return read;
  }();
  return handed;
}

int outcomes_alive = 0;

void append(const std::string& which, const std::string& outcome) {
  static std::ofstream file(test_options().outcomes_to, std::ios::binary | std::ios::app);
  file << to_bytes(running_test(), which, outcome);
  if (!file.flush()) throw Error(Verdict::usage, "cannot write " + test_options().outcomes_to);
}

/// Fails the test besides throwing: tests that expect errors catch them.
[[noreturn]] void misfit(const std::string& words) {
  ADD_FAILURE() << words;
  throw Error(Verdict::usage, words);
}

std::string take(const std::string& which) {
  std::deque<Run>& runs = all_handed()[running_test()];
  if (runs.empty()) misfit("no outcome was handed over of " + which);
  const Run run = std::move(runs.front());
  runs.pop_front();
  if (run.which != which) misfit(fmt::format("the outcome of {} was handed over for that of {}", run.which, which));
  return run.outcome;
}

}  // namespace

OneOutcome::OneOutcome() { ++outcomes_alive; }
OneOutcome::~OneOutcome() { --outcomes_alive; }

bool calls_were_handed_over() { return !test_options().outcomes_of.empty(); }
bool calls_are_handed_over() {
  return (calls_were_handed_over() || !test_options().outcomes_to.empty()) && outcomes_alive == 0;
}

void hand_over_call(const std::string& call, const std::string& result) { append(call, result); }
std::string handed_over_call(const std::string& call) { return take(call); }

void hand_over(const Case& the_case, std::optional<std::uint64_t> perturb, const Outcome& outcome) {
  Outcome shorter = outcome;
  const std::vector<std::size_t> common = take_out_common(shorter.values);
  const std::vector<std::vector<float>> floats = take_out_floats(shorter.values);
  append(which_run(the_case, perturb), to_bytes(shorter, common, floats));
}

Outcome handed_over(const Case& the_case, std::optional<std::uint64_t> perturb) {
  const std::string which = which_run(the_case, perturb), bytes = take(which);
  Outcome outcome;
  std::vector<std::size_t> common;
  std::vector<std::vector<float>> floats;
  from_bytes(bytes, outcome, common, floats);
  put_back(outcome.values, common, floats);
  const auto ranks = static_cast<std::size_t>(the_case.ranks);
  if (outcome.passed() && (outcome.values.size() != ranks || outcome.ledgers.size() != ranks))
    throw Error(Verdict::usage, fmt::format("what was handed over of {} is not of all its ranks", which));
  return outcome;
}

std::string never_judged() {
  std::string tests;
  for (const auto& [test, runs] : all_handed())
    if (!runs.empty()) tests += (tests.empty() ? "" : ", ") + test;
  return tests;
}

}  // namespace lockstep::testing
