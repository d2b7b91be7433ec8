// Tests of exercise 21.12, parts c and d: the steps at which outer steps come, and their cost.
#include "common/testing/answered.hpp"
#include "labs/week21_data_parallel/local_sgd_testing.hpp"

namespace lockstep::week21::local_sgd_testing {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto local_sgd_bytes = testing::answer<week21::local_sgd_bytes>;

// Part c --------------------------------------------------------------------------------------------------------------

constexpr int kLocalSteps = 7;
constexpr OuterSgd kScripted{.learning_rate = 0.7f, .momentum = 0.5f};
constexpr std::size_t kShort = 5;

OuterSgd every(std::size_t steps) {
  OuterSgd how = kScripted;
  how.every = static_cast<int>(steps);
  return how;
}

/// A window of 7 scripted local steps and finish(), twice; finish() once more. After each call: all-reduces so far,
/// bytes sent in it, the values.
Values scripted_windows(Rank me, const Case& c) {
  std::vector<float> initial(kShort);
  for (std::size_t i = 0; i < kShort; ++i) initial[i] = start_of(i) + static_cast<float>(me.rank());
  Slice values = uploaded(me, initial, Category::parameter);
  double sums = 0;
  Values seen;
  LocalSgd outer(me, values, every(c.size), [&](Rank group, const Slice& data) {
    ++sums;
    ring_all_reduce(group, data);
  });
  const auto look = [&](const std::function<void()>& act) {
    const std::uint64_t sent = ledger_of(me).traffic.bytes_sent;
    act();
    seen.push_back(sums);
    seen.push_back(static_cast<double>(ledger_of(me).traffic.bytes_sent - sent));
    append_values(me, values, seen);
  };
  for (int window = 0; window < 2; ++window) {
    for (int step = 0; step < kLocalSteps; ++step) {
      std::vector<float> change(kShort);
      for (std::size_t i = 0; i < kShort; ++i) change[i] = local_change(me.rank(), i, step + 10 * window);
      add(me, values, uploaded(me, change, Category::buffer));
      look([&] { outer.step_done(); });
    }
    look([&] { outer.finish(); });
  }
  look([&] { outer.finish(); });
  return seen;
}

/// The same in double, for all ranks at once.
class ScriptedReplicas {
 public:
  ScriptedReplicas(int ranks, const OuterSgd& how) : how_(how), ranks_(ranks) {
    for (std::size_t i = 0; i < kShort; ++i) elements_.push_back({static_cast<double>(start_of(i))});
    values_.assign(static_cast<std::size_t>(ranks), {});
    go_on();
  }

  void local(int step) {
    for (int r = 0; r < ranks_; ++r)
      for (std::size_t i = 0; i < kShort; ++i) at(r)[i] += static_cast<double>(local_change(r, i, step));
    if (++pending_ == how_.every) outer();
  }
  void finish() {
    if (pending_ > 0) outer();
  }
  std::vector<double>& at(int rank) { return values_[static_cast<std::size_t>(rank)]; }
  int sums() const { return sums_; }

 private:
  void outer() {
    for (std::size_t i = 0; i < kShort; ++i) {
      double g = 0;
      for (int r = 0; r < ranks_; ++r) g += (elements_[i].start - at(r)[i]) / ranks_;
      elements_[i].step(how_, g);
    }
    go_on();
    ++sums_;
  }
  void go_on() {
    pending_ = 0;
    for (auto& mine : values_) {
      mine.clear();
      for (const OuterElement& element : elements_) mine.push_back(element.start);
    }
  }

  OuterSgd how_;
  int ranks_, pending_ = 0, sums_ = 0;
  std::vector<OuterElement> elements_;
  std::vector<std::vector<double>> values_;  // by rank
};

std::string wrong_window(const Case& c, const Outcome& outcome) {
  ScriptedReplicas expected(c.ranks, every(c.size));
  std::size_t at = 0;
  for (int call = 0; call < 2 * (kLocalSteps + 1) + 1; ++call) {
    const int before = expected.sums(), window = call / (kLocalSteps + 1), step = call % (kLocalSteps + 1);
    const bool local = window < 2 && step < kLocalSteps;
    if (local) expected.local(step + 10 * window);
    if (!local) expected.finish();
    const std::string when =
        local ? fmt::format("H = {}, local step {} of run {}", c.size, step + 1, window + 1)
              : fmt::format("H = {}, finish() {}", c.size,
                            window < 2 ? fmt::format("after {} local steps", kLocalSteps) : "after another finish()");
    for (int rank = 0; rank < c.ranks; ++rank) {
      const Values& seen = outcome.values[rank];
      if (seen[at] != expected.sums())
        return fmt::format("{}: {:.0f} outer steps so far, expected {}: H counts the local steps since the last one",
                           when, seen[at], expected.sums());
      if (before == expected.sums() && seen[at + 1] != 0)
        return fmt::format("{}: rank {} has sent {:.0f} bytes, expected none: no outer step is due", when, rank,
                           seen[at + 1]);
      for (std::size_t i = 0; i < kShort; ++i)
        if (!(std::abs(seen[at + 2 + i] - expected.at(rank)[i]) <= 5 * kRounding))
          return fmt::format("{}: rank {}'s element {} is {:.7g}, expected {:.7g}", when, rank, i, seen[at + 2 + i],
                             expected.at(rank)[i]);
    }
    at += 2 + kShort;
  }
  return "";
}

TEST(Lab21_12c, OuterStepsComeAfterHLocalOnes) {
  run_cases(scripted_windows, wrong_window,
            {.ranks = {1, 2, 3, 4}, .sizes = sizes_of({1, 2, 3, 7, 20}), .which = "H ="});
}

/// After one local step with H = 1: bytes of θ₀ and velocity; then whether each of two mistakes is refused.
Values memory_and_refusals(Rank me, const Case& c) {
  Slice values = uploaded(me, std::vector<float>(c.size, 1.0f), Category::parameter);
  Values seen;
  for (const float momentum : {0.0f, 0.5f}) {
    LocalSgd outer(me, values, {.every = 1, .momentum = momentum}, ring_all_reduce);
    outer.step_done();
    seen.push_back(static_cast<double>(ledger_of(me).memory.live_of(Category::optimizer)));
  }
  const auto refused = [&](const Slice& what, int every) {
    try {
      LocalSgd outer(me, what, {.every = every}, ring_all_reduce);
    } catch (const Error& error) {
      return error.verdict() == Verdict::usage ? 1.0 : 0.0;
    }
    return 0.0;
  };
  seen.push_back(refused(values, 0));
  seen.push_back(refused(me.allocate(c.size, DType::bf16, Category::parameter), 1));
  return seen;
}

TEST(Lab21_12c, KeepsTheStartAndWithMomentumTheVelocity) {
  run_cases(memory_and_refusals,
            [](const Case& c, const Outcome& outcome) -> std::string {
              const Values expected{4.0 * static_cast<double>(c.size), 8.0 * static_cast<double>(c.size), 1, 1};
              const char* what[] = {"bytes are kept without momentum", "bytes are kept with momentum",
                                    "of 1 call with H = 0 is refused", "of 1 call with 16-bit values is refused"};
              for (int rank = 0; rank < c.ranks; ++rank)
                for (std::size_t i = 0; i < expected.size(); ++i)
                  if (outcome.values[rank][i] != expected[i])
                    return fmt::format("rank {}: {} {}, expected {}", rank, outcome.values[rank][i], what[i],
                                       expected[i]);
              return "";
            },
            {.ranks = {1, 2}, .sizes = sizes_of({5, 64})});
}

// Part d --------------------------------------------------------------------------------------------------------------

TEST(Lab21_12d, BytesAreThoseOfTheLedger) {
  constexpr int kWindows = 3;
  const auto program = [](Rank me, const Case& c) {
    Slice values = uploaded(me, std::vector<float>(c.size, 1.0f), Category::parameter);
    const OuterSgd how{.every = 5};
    LocalSgd outer(me, values, how, ring_all_reduce);
    Values seen;
    append_traffic(me, seen, [&] {
      for (int step = 0; step < kWindows * how.every; ++step) outer.step_done();
    });
    return seen;
  };
  run_cases(program,
            [](const Case& c, const Outcome& outcome) -> std::string {
              const double sent = outcome.values[0][0] / (kWindows * 5);
              const double said = local_sgd_bytes({.every = 5}, c.ranks, static_cast<double>(c.size));
              if (std::abs(sent - said) <= 1e-9 * sent) return "";
              return fmt::format(
                  "{} elements on {} ranks, H = 5: local_sgd_bytes says {:.7g} bytes a local step, the "
                  "ledger {:.7g} on average over 15",
                  c.size, c.ranks, said, sent);
            },
            {.ranks = {1, 2, 3, 4, 8}, .sizes = sizes_of({48, 480 + 24 * drawn({21, 12, 2}, 20)})});
}

TEST(Lab21_12d, TheLeastHKeepsToItsShareAndOneLessDoesNot) {
  for (const int ranks : {1, 2, 8, 64})
    for (const double compute : {1e-4, 3e-3, 0.11})
      for (const double share : {0.01, 0.07, 0.5, 0.93}) {
        const CostModel link{.alpha = 2e-5, .beta = 8e-10, .gamma = 1e-11, .launch = 1e-6};
        const double elements = 1e6 + 1e3 * static_cast<double>(drawn({21, 12, 3}, 1000));
        const int least = least_every(link, ranks, elements, compute, share);
        const auto of = [&](int steps) {
          return 1 - compute / local_sgd_seconds({.every = steps}, link, ranks, elements, compute);
        };
        const std::string where = fmt::format("{} ranks, {:.6g} elements, {:g} s of compute, a share of {:g}", ranks,
                                              elements, compute, share);
        ASSERT_GE(least, 1) << where << ": H is at least 1, but least_every says " << least;
        ASSERT_LE(of(least), share * (1 + 1e-9))
            << where << ": with H = " << least << " the share of communication is " << of(least);
        if (least == 1) continue;
        ASSERT_GT(of(least - 1), share * (1 - 1e-9)) << where << ": H = " << least - 1 << " is enough, with a share of "
                                                     << of(least - 1) << ", but least_every says " << least;
      }
}

}  // namespace
}  // namespace lockstep::week21::local_sgd_testing
