// Runs one lab test over all its cases, smallest first, on the linked backend.
//
//   TEST(Lab21_2, SumsAreExact) {
//     run_cases([](Rank me, const Case& c) { … return what I saw; },
//               [](const Case& c, const Outcome& outcome) { return not_the_sum(outcome, c.size); });
//   }
//
// Ranks return what they saw, and it is judged in one place. A rank-local assertion between two collectives would turn
// a wrong number into a hang.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "common/runtime/run.hpp"

namespace lockstep::testing {

struct Case {
  int ranks = 1;
  std::size_t size = 0;  ///< elements, or another size of the test
};

/// Runs on every rank; returns what the rank saw.
using CaseProgram = std::function<Values(Rank, const Case&)>;
/// Describes the error in a run that ended without one, in a sentence that points at the mistake; "" if there is none.
/// The outcome is the same on every process, so all return the same answer.
using CaseJudge = std::function<std::string(const Case&, const Outcome&)>;

/// 0, 1, p − 1, p, p + 1 and the primes 7, 13, 31, 101, so that few of them divide. With --seed the last is drawn, from
/// 101 on.
std::vector<std::size_t> awkward_sizes(int ranks);

struct CasePlan {
  std::vector<int> ranks = {1, 2, 3, 4, 5, 7, 8};
  std::function<std::vector<std::size_t>(int ranks)> sizes = awkward_sizes;
  /// The program uses streams besides main. In the simulator each case runs again with queued work as early and as late
  /// as its order allows (--perturb 1, 2, 3), which must not change the result.
  bool queues = false;
  /// The cases form one measurement, which --ranks and --size do not restrict.
  bool together = false;
  /// Reason why the test is meaningful only in the simulator (virtual time); "" if it runs everywhere.
  std::string simulator_only;
  std::string unit = "element per rank";  ///< unit of a case's size, for the report; empty: none
  /// Word before the size in the report, if the size is not a count but the number of one of several cases.
  std::string which;
  /// Called when a case has failed. Returns the error in an earlier part, to be fixed first, "21.7a first: …"; "" if
  /// there is none.
  std::function<std::string()> cause;
  /// Changes the options of a case. By default race checks and poison are on, and the machine buffers no message: a
  /// send ends only after its receive has begun.
  std::function<void(const Case&, RunOptions&)> adjust;
};

/// Runs and judges every case of `plan`, or those requested by --ranks and --size. In place of a default sweep any
/// number can be requested. If the plan has its own ranks or sizes, only these can be, because they have a meaning; a
/// plan that lacks the requested one is skipped, and its own are listed. Stops at the first case that fails, and
/// reports its verdict, the error and how to replay it. On MPI, cases with more ranks than processes are skipped and
/// reported.
void run_cases(const CaseProgram& program, const CaseJudge& judge, const CasePlan& plan = {},
               Location where = Location::current());

/// The same as run(), for tests that have their own cases. In a grade the outcome is that of the process that ran the
/// answer, without its trace.
Outcome run_answered(const RunOptions& options, const Program& program);

/// A case in a group of all ranks in reverse order, where `world_rank()` instead of `rank()` is a mistake; and its
/// judge, for which rank r is the group's.
CaseProgram in_reverse_order(const CaseProgram& program);
CaseJudge in_reverse_order(const CaseJudge& judge);

/// True if there are processes for so many ranks. Always true in the simulator, and if ranks share a GPU.
bool has_ranks(int ranks);

/// Returns the same sizes for every number of ranks.
inline std::function<std::vector<std::size_t>(int)> sizes_of(std::vector<std::size_t> sizes) {
  return [sizes = std::move(sizes)](int) { return sizes; };
}

}  // namespace lockstep::testing
