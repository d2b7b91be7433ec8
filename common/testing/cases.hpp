// One lab test over all its cases, smallest first, on whichever backend is linked.
//
//   TEST(Lab21_2, SumsAreExact) {
//     run_cases([](Rank me, const Case& c) { … return what I saw; },
//               [](const Case& c, const Outcome& outcome) { return not_the_sum(outcome, c.size); });
//   }
//
// Ranks return what they saw; one place judges. A rank-local assertion would stand between two collectives and turn a
// wrong number into a hang.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "common/runtime/run.hpp"

namespace lockstep::testing {

struct Case {
  int ranks = 1;
  std::size_t size = 0;  ///< elements, or whatever the test calls its size
};

/// Runs on every rank; returns what the rank saw.
using CaseProgram = std::function<Values(Rank, const Case&)>;
/// Says what is wrong with a run that ended well, in a sentence that points at the mistake; "" when nothing is. The
/// outcome is the same on every process, so they all come to the same answer.
using CaseJudge = std::function<std::string(const Case&, const Outcome&)>;

/// 0, 1, p − 1, p, p + 1 and the primes 7, 13, 31, 101: few of them divide. With --seed the last is drawn, from 101 on.
std::vector<std::size_t> awkward_sizes(int ranks);

struct CasePlan {
  std::vector<int> ranks = {1, 2, 3, 4, 5, 7, 8};
  std::function<std::vector<std::size_t>(int ranks)> sizes = awkward_sizes;
  /// The program uses more queues than main: in the simulator each case runs again with queued work as early and as
  /// late as its order allows (--perturb 1, 2, 3), which must not change the result.
  bool queues = false;
  /// The cases are one measurement, which --ranks and --size leave whole.
  bool together = false;
  /// A reason why the test means nothing outside the simulator (virtual time), or "": it runs everywhere.
  std::string simulator_only;
  std::string unit = "element per rank";  ///< what a case's size counts, for the report; empty: nothing
  /// Where a size counts nothing, but says which of several cases this is: what stands before its number in the report.
  std::string which;
  /// Of a case that failed: what an earlier part does wrong, which comes first: "21.7a first: …"; "" where it is right.
  std::function<std::string()> cause;
  /// Changes the options of a case. They arrive with race checks and poison on, and with a machine that buffers no
  /// message: a send is over only when its receive has begun.
  std::function<void(const Case&, RunOptions&)> adjust;
};

/// Runs and judges every case of `plan`, or those asked for by --ranks and --size. Where the plan has ranks or sizes of
/// its own, only these can be asked for, because they say more than a number, and a plan that has none of what was
/// asked for is skipped, with its own in words; instead of the sweep that a plan has by itself, any number. Stops at
/// the first case that fails: with its verdict, what is wrong, and how to replay it. On MPI, cases with more ranks than
/// processes are skipped, and said.
void run_cases(const CaseProgram& program, const CaseJudge& judge, const CasePlan& plan = {},
               Location where = Location::current());

/// The same in a group of all ranks in reverse order, where `world_rank()` in the place of `rank()` is a mistake; and
/// its judge, for whom rank r is the group's.
CaseProgram in_reverse_order(const CaseProgram& program);
CaseJudge in_reverse_order(const CaseJudge& judge);

/// Whether there are processes for so many ranks. In the simulator, and where ranks share a GPU, always.
bool has_ranks(int ranks);

/// The same sizes for every number of ranks.
inline std::function<std::vector<std::size_t>(int)> sizes_of(std::vector<std::size_t> sizes) {
  return [sizes = std::move(sizes)](int) { return sizes; };
}

}  // namespace lockstep::testing
