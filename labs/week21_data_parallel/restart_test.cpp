// Tests of exercise 21.14: the newest complete checkpoint, meeting with a time-out, resuming after a restart, and the
// end of a job one of whose processes dies. Time, the store and the processes are made up.
#include <cctype>
#include <cmath>

#include "common/testing/answered.hpp"
#include "labs/week21_data_parallel/restart_testing.hpp"

namespace lockstep::week21::restart_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto newest_complete = testing::answer<week21::newest_complete>;

// Part a --------------------------------------------------------------------------------------------------------------

TEST(Lab21_14a, TheNewestCheckpoint) {
  EXPECT_EQ(newest_complete({}), -1) << "an empty folder";
  EXPECT_EQ(newest_complete({"step-00000050/manifest", "step-00000050/rank-0"}), 50) << "one";
  EXPECT_EQ(newest_complete({"step-00000050/manifest", "step-00000060/rank-0", "step-00000060/rank-1"}), 50)
      << "step 60 has no manifest: it was not complete when the job died";
  EXPECT_EQ(newest_complete({"step-9/manifest", "step-10/manifest"}), 10) << "10 comes after 9, as a number";
  EXPECT_EQ(newest_complete({"step-120/manifest", "step-00000030/manifest"}), 120) << "with zeros and without";
  EXPECT_EQ(newest_complete({"step-0/manifest"}), 0) << "step 0 is a step";
  EXPECT_EQ(newest_complete({"step-7/manifest.partial", "step-8.partial/manifest", "step-/manifest", "step-9",
                             "old-step-11/manifest", "step-12/rank-0/manifest", "step--13/manifest", "fail-14/manifest",
                             "manifest"}),
            -1)
      << "other files mean nothing";
}

TEST(Lab21_14a, TheNewestOfDrawnFolders) {
  std::mt19937 random = random_for(4);
  for (int i = 0; i < 50; ++i) {
    std::vector<std::string> files;
    int newest = -1;
    for (int n = draw(random, 0, 6); n > 0; --n) {
      const int step = draw(random, 0, 3000);
      const std::string folder = fmt::format("step-{:0{}}", step, draw(random, 1, 8));
      files.push_back(folder + "/rank-0");
      if (draw(random, 0, 1) == 0) continue;
      files.push_back(folder + "/manifest");
      newest = std::max(newest, step);
    }
    std::shuffle(files.begin(), files.end(), random);
    std::string all;
    for (const std::string& file : files) all += " " + file;
    ASSERT_EQ(newest_complete(files), newest) << "files:" << all;
  }
}

// Part b --------------------------------------------------------------------------------------------------------------

constexpr double kTimeout = 30;

/// Called on a store or on processes that the test has made up, of which a grade hands over what became of them.
int come_together(MadeUpStore& store, const Place& place, int newest, double timeout) {
  return testing::answered(
      fmt::format("come_together from {}", newest),
      [&] { return week21::come_together(store, place, newest, timeout); }, store.time, store.own, store.wrong);
}
int supervise(MadeUpProcesses& job, double grace) {
  return testing::answered(
      fmt::format("supervise with {} s of grace", grace), [&] { return week21::supervise(job, grace); }, job.time,
      job.processes, job.wrong);
}

/// Rank 2 of `ranks`, with `newest`, where the others come at `times` with `steps`.
struct Meeting {
  MadeUpStore store;
  Place place{"torchrun", 2, 8, 2, 1};

  explicit Meeting(int ranks) { place.ranks = ranks; }
  void comes(int rank, double at, int step) { store.comes(key_of(place.restarts, rank), at, step); }
  void all_come(double at, int step) {
    for (int rank = 0; rank < place.ranks; ++rank)
      if (rank != place.rank) comes(rank, at, step);
  }
  int run(int newest) {
    const int step = come_together(store, place, newest, kTimeout);
    if (!store.wrong.empty()) ADD_FAILURE() << store.wrong;
    return step;
  }
  void expect_announced(int newest) const {
    ASSERT_EQ(store.own.size(), 1u) << "it must set exactly one key";
    EXPECT_EQ(store.own[0].key, key_of(place.restarts, place.rank)) << "its own key";
    EXPECT_EQ(store.own[0].value, std::to_string(newest)) << "its own newest step as the value";
    EXPECT_LT(store.own[0].at, 1) << "it must set its key at once: the others wait for it";
  }
};

TEST(Lab21_14b, AllCome) {
  std::mt19937 random = random_for(5);
  for (int i = 0; i < 30; ++i) {
    Meeting meeting(draw(random, 3, 64));
    double last = 0;
    for (int rank = 0; rank < meeting.place.ranks; ++rank) {
      if (rank == meeting.place.rank) continue;
      const double at = draw(random, 0, 2900) / 100.0;
      last = std::max(last, at);
      meeting.comes(rank, at, 40);
    }
    ASSERT_EQ(meeting.run(40), 40) << "all found step 40";
    meeting.expect_announced(40);
    EXPECT_GE(meeting.store.time.passed(), last) << "it returned before all ranks had arrived";
    EXPECT_LE(meeting.store.time.passed(), last + 1.01) << "it must return within a second of the last rank's arrival";
    if (HasFailure()) return;
  }
}

TEST(Lab21_14b, AloneOrAtTheLastMoment) {
  Meeting late(5);
  late.all_come(kTimeout - 0.001, 7);
  EXPECT_EQ(late.run(7), 7) << "all arrived a millisecond before the time-out: no rank is missing";
  MadeUpStore store;
  EXPECT_EQ(come_together(store, {}, -1, kTimeout), -1) << "one rank alone, without a checkpoint";
  EXPECT_LE(store.time.passed(), 1) << "a single rank need not wait";
}

/// True if a whole number in the text is `number`.
bool names(const std::string& text, int number) {
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
    if (end > at && text.substr(at, end - at) == std::to_string(number)) return true;
    at = end + 1;
  }
  return false;
}

TEST(Lab21_14b, WhoNeverCame) {
  std::mt19937 random = random_for(6);
  for (int i = 0; i < 20; ++i) {
    Meeting meeting(91);
    std::vector<int> missing;
    for (int n = draw(random, 1, 5); n > 0; --n) missing.push_back(40 + draw(random, 0, 30));
    if (draw(random, 0, 3) == 0) missing = {90};
    for (int rank = 0; rank < meeting.place.ranks; ++rank)
      if (rank != meeting.place.rank && std::ranges::find(missing, rank) == missing.end())
        meeting.comes(rank, draw(random, 0, 20), 5);
    try {
      meeting.run(5);
      ADD_FAILURE() << "rank " << missing[0] << " never arrived, but come_together returned after "
                    << meeting.store.time.passed() << " s";
    } catch (const Error& error) {
      if (error.verdict() == Verdict::not_implemented || error.verdict() == Verdict::does_not_compile) throw;
      ASSERT_EQ(error.verdict(), Verdict::timeout)
          << "rank " << missing[0] << " never arrived. The message: " << error.what();
      for (int rank : missing)
        ASSERT_TRUE(names(error.what(), rank)) << "rank " << rank << " never arrived, but is not in: " << error.what();
      ASSERT_FALSE(names(error.what(), 77)) << "rank 77 arrived, but is in: " << error.what();
    }
    EXPECT_GE(meeting.store.time.passed(), kTimeout - 1e-6) << "it gave up before its 30 s had passed";
    EXPECT_LE(meeting.store.time.passed(), kTimeout + 1.01) << "it still waited after its 30 s";
    meeting.expect_announced(5);
    if (HasFailure()) return;
  }
}

TEST(Lab21_14b, TheStartBeforeDoesNotCount) {
  Meeting meeting(4);
  for (int rank = 0; rank < 4; ++rank) meeting.store.comes(key_of(0, rank), 0, 20);
  expect_error(Verdict::timeout, "3", "all keys of the start before are there, and none of this one",
               [&] { meeting.run(40); });
  Meeting again(4);
  for (int rank = 0; rank < 4; ++rank) again.store.comes(key_of(0, rank), 0, 20);
  again.all_come(5, 40);
  EXPECT_EQ(again.run(40), 40) << "20 is from the start before";
  EXPECT_GE(again.store.time.passed(), 5) << "the ranks of this start arrived after 5 s";
}

TEST(Lab21_14b, AllGoOnFromTheSameStep) {
  const auto step = [](int mine, int rank0, int rank3) {
    Meeting meeting(4);
    meeting.comes(0, 0, rank0);
    meeting.comes(1, 0, 60);
    meeting.comes(3, 0, rank3);
    return meeting.run(mine);
  };
  EXPECT_EQ(step(60, 60, 60), 60) << "60, 60, 60, 60";
  EXPECT_EQ(step(40, 60, 60), 40) << "60, 60, 40 (mine), 60: the smallest";
  EXPECT_EQ(step(60, 40, 60), 40) << "40, 60, 60 (mine), 60: the smallest";
  EXPECT_EQ(step(60, 60, 9), 9) << "60, 60, 60 (mine), 9: the smallest, as a number";
  EXPECT_EQ(step(0, 60, 60), 0) << "step 0 is a step";
  Meeting fresh(4);
  fresh.all_come(3, -1);
  EXPECT_EQ(fresh.run(-1), -1) << "no rank found a checkpoint: training begins";
  expect_error(Verdict::usage, "", "rank 3 found none and the others step 60", [&] { step(60, 60, -1); });
  expect_error(Verdict::usage, "", "this rank found none and the others step 60", [&] { step(-1, 60, 60); });
}

// Part c --------------------------------------------------------------------------------------------------------------

constexpr double kGrace = 10;
using Made = MadeUpProcesses::Process;

/// Runs the answer; whatever it returns, the processes must be treated as the contract says.
int supervised(MadeUpProcesses& job, const std::string& what) {
  const int code = supervise(job, kGrace);
  if (!job.wrong.empty()) ADD_FAILURE() << what << ": " << job.wrong;
  if (job.any_runs())
    ADD_FAILURE() << what << ": it returned after " << job.time.passed() << " s, but a process is still running";
  double failed = INFINITY;  // the first that failed by itself
  for (const Made& p : job.processes)
    if (p.end() == p.ends && p.code != 0) failed = std::min(failed, p.ends);
  for (const Made& p : job.processes) {
    if (p.terminated >= 0 && (p.terminated < failed || p.terminated > failed + 1.01))
      ADD_FAILURE() << what << ": SIGTERM at " << p.terminated << " s; the first failed at " << failed << " s";
    if (p.killed >= 0 && (p.killed < failed + kGrace - 1e-6 || p.killed > failed + kGrace + 2.02))
      ADD_FAILURE() << what << ": SIGKILL at " << p.killed << " s; the first failed at " << failed
                    << " s, and the others have 10 s of grace";
    if (p.killed < 0 && p.end() > failed + kGrace + 2.02)
      ADD_FAILURE() << what << ": a process that ran until " << p.end() << " s was never killed; the first failed at "
                    << failed << " s, and the others have 10 s of grace";
    if (failed + 1.01 < p.ends && p.terminated < 0)
      ADD_FAILURE() << what << ": a process that was still running when another failed at " << failed
                    << " s got no SIGTERM";
  }
  return code;
}
int code_of(std::vector<Made> all, const std::string& what) {
  MadeUpProcesses job(std::move(all));
  return supervised(job, what);
}

TEST(Lab21_14c, AllEndWell) {
  EXPECT_EQ(code_of({{3}, {1}, {20}, {7}}, "four end with 0, one after the other"), 0) << "the job's exit code";
  EXPECT_EQ(code_of({{5}}, "one process"), 0) << "the job's exit code";
  EXPECT_EQ(code_of({{0}, {0}}, "both have exited before the first check"), 0) << "the job's exit code";
  EXPECT_EQ(code_of({}, "no process"), 0) << "the job's exit code";
}

TEST(Lab21_14c, OneFails) {
  EXPECT_EQ(code_of({{100}, {100}, {4, 7}, {100}}, "process 2 fails with 7 after 4 s, the others end when told to"), 7)
      << "the code of the first that failed, not 143 of those it terminated";
  EXPECT_EQ(code_of({{100}, {4, 137}, {100}}, "process 1 is killed from outside"), 137) << "the job's exit code";
  EXPECT_EQ(code_of({{2}, {4, 7}, {100}}, "process 0 has ended with 0 before process 1 fails"), 7)
      << "the job's exit code";
  EXPECT_EQ(code_of({{4, 9}}, "the only one fails"), 9) << "the job's exit code";
  EXPECT_EQ(code_of({{2}, {3}, {4, 9}}, "the last one fails, when no other is left"), 9) << "the job's exit code";
  EXPECT_EQ(code_of({{4, 8}, {4, 7}, {100}}, "two fail at once"), 8) << "of several seen at once, the lowest's";
  EXPECT_EQ(code_of({{100}, {4, 7}, {12, 8, INFINITY}}, "another fails while it saves"), 7) << "the job's exit code";
}

TEST(Lab21_14c, WhoDoesNotEndIsKilled) {
  EXPECT_EQ(code_of({{1000, 0, INFINITY}, {4, 7}, {1000}}, "process 0 ignores SIGTERM"), 7) << "the job's exit code";
  EXPECT_EQ(code_of({{1000, 0, INFINITY}, {4, 7}, {1000, 0, INFINITY}}, "two ignore SIGTERM"), 7)
      << "the job's exit code";
  MadeUpProcesses saves({{1000, 0, 8, 0}, {4, 7}, {1000, 0, 0.5}});
  EXPECT_EQ(supervised(saves, "process 0 saves for 8 s and ends with 0"), 7);
  EXPECT_LT(saves.processes[0].killed, 0) << "process 0 saves for 8 of its 10 s of grace, and was killed";
  EXPECT_LE(saves.time.passed(), 4 + 8 + 2.02) << "it must return as soon as all have exited";
}

TEST(Lab21_14c, DrawnJobs) {
  std::mt19937 random = random_for(7);
  for (int i = 0; i < 60; ++i) {
    std::vector<Made> all;
    double at = 1;
    int expected = 0, fails_at = draw(random, 0, 9);
    for (int n = 0; n < 10; ++n) {
      at += draw(random, 2, 30);
      const int code = n == fails_at || (n > fails_at && draw(random, 0, 2) == 0) ? draw(random, 1, 255) : 0;
      if (expected == 0) expected = code;
      all.push_back({at, code, draw(random, 0, 3) == 0 ? INFINITY : draw(random, 0, 200) / 10.0,
                     draw(random, 0, 1) == 0 ? 143 : draw(random, 0, 3)});
    }
    std::shuffle(all.begin(), all.end(), random);
    ASSERT_EQ(code_of(all, "drawn"), expected) << "the code of the first that fails";
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace lockstep::week21::restart_test
