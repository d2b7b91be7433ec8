// Tests of exercise 22.7: plans that can be run, their memory, and how much of the gathers they hide in virtual time.
#include "labs/week22_zero/open_gathers.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/testing/answered.hpp"
#include "common/testing/drawn.hpp"
#include "common/testing/verdict.hpp"
#include "labs/week22_zero/zero_timing_testing.hpp"

namespace lockstep::week22::open_gathers_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto open_gathers = testing::answer<week22::open_gathers>;

using testing::note_score;
using testing::run_cases;
using testing::sizes_of;

std::string plural(std::size_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

/// Follows a plan without running it: which units are there, and for which moment.
class Follower {
 public:
  explicit Follower(const ShardedStep& step) : step_(step), there_(step.units(), false), used_(step.units(), false) {}

  /// The first thing that is wrong; "" when nothing is.
  std::string follow(const std::vector<Moment>& plan) {
    if (plan.size() != step_.moments())
      return fmt::format("the plan has {}, the step {}", plural(plan.size(), "moment"), step_.moments());
    for (now_ = 0; now_ < plan.size(); ++now_)
      if (std::string wrong = follow(plan[now_]); !wrong.empty()) return fmt::format("moment {}: {}", now_, wrong);
    for (std::size_t u = 0; u < there_.size(); ++u)
      if (there_[u]) return fmt::format("unit {} is still gathered after the step", u);
    return "";
  }

 private:
  std::string follow(const Moment& moment) {
    for (const std::size_t u : moment.gather)
      if (std::string wrong = gather(u); !wrong.empty()) return wrong;
    const std::size_t needed = step_.used_at(now_);
    if (!there_[needed]) return fmt::format("unit {} is used, and was not gathered", needed);
    used_[needed] = true;
    for (const std::size_t u : moment.free)
      if (std::string wrong = free(u); !wrong.empty()) return wrong;
    return "";
  }
  std::string gather(std::size_t u) {
    if (u >= step_.units()) return fmt::format("gathers unit {} of {}", u, step_.units());
    if (there_[u]) return fmt::format("gathers unit {}, which is gathered already", u);
    there_[u] = true;
    used_[u] = false;
    held_ += step_.elements[u];
    if (held_ <= step_.most_elements) return "";
    return fmt::format("with unit {} there are {} gathered, allowed {}", u, plural(held_, "element"),
                       step_.most_elements);
  }
  std::string free(std::size_t u) {
    if (u >= step_.units() || !there_[u]) return fmt::format("frees unit {}, which is not gathered", u);
    if (!used_[u]) return fmt::format("frees unit {}, which has not been used since it was gathered", u);
    there_[u] = false;
    held_ -= step_.elements[u];
    return "";
  }

  const ShardedStep& step_;
  std::vector<bool> there_, used_;
  std::size_t held_ = 0, now_ = 0;
};

constexpr int kRanks = 8;
constexpr double kGather = (kRanks - 1) * (1e-6 + kTimedElements * 4.0 / kRanks * 1e-9);  // of a small unit
constexpr double kWork = kGather / 4;                                                     // of TimedModel::work(1)

struct Race {
  const char* name;
  std::vector<std::size_t> sizes;  // in small units
  int work;                        // of each unit's forward pass, in kWork
  std::size_t room;

  ShardedStep step() const {
    ShardedStep step;
    for (const std::size_t size : sizes) {
      step.elements.push_back(size * kTimedElements);
      step.gather_seconds.push_back(static_cast<double>(size) * kGather);
      step.forward_seconds.push_back(work * kWork);
    }
    step.most_elements = room * kTimedElements;
    return step;
  }
};

const std::vector<Race>& races() {
  static const std::vector<Race> all = {{"8 equal units, room for 3", std::vector<std::size_t>(8, 1), 5, 3},
                                        {"every third of 12 is large", {1, 1, 4, 1, 1, 4, 1, 1, 4, 1, 1, 4}, 10, 6},
                                        {"a large unit at the end", {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 5}, 7, 8}};
  return all;
}

TEST(Lab22_7, PlansCanBeRun) {
  for (const Race& race : races())
    for (const std::size_t more : {0, 1, 2, 100}) {
      ShardedStep step = race.step();
      step.most_elements += more * kTimedElements;
      if (std::string wrong = Follower(step).follow(open_gathers(step)); !wrong.empty())
        FAIL() << race.name << (more > 0 ? fmt::format(" and {} more", more) : "") << ": " << wrong;
    }
}

/// The least memory that can do: two neighbours. Sizes without a pattern; with --seed others, and of more units.
TEST(Lab22_7, PlansNeedNoMoreThanTwoNeighbours) {
  const std::size_t drawn = testing::drawn({22, 12}, 1000);
  for (std::size_t units = 1; units <= 9 + drawn % 8; ++units)
    for (std::size_t seed = 0; seed < 20; ++seed) {
      ShardedStep step;
      for (std::size_t u = 0; u < units; ++u) {
        step.elements.push_back(1 + ((u + 1) * (seed + drawn + 3) * 2654435761u >> 9) % 7);
        step.gather_seconds.push_back(static_cast<double>(step.elements[u]));
        step.forward_seconds.push_back(1);
        step.most_elements =
            std::max(step.most_elements, step.elements[u] + (u > 0 ? step.elements[u - 1] : std::size_t{0}));
      }
      if (std::string wrong = Follower(step).follow(open_gathers(step)); !wrong.empty())
        FAIL() << fmt::format("units of {} elements, room for {}: {}", fmt::join(step.elements, ", "),
                              step.most_elements, wrong);
    }
}

/// The mode of a run: the step by plan; without gathers; or all gathers and nothing else.
enum class Run { planned, without_gathers, gathers_alone };

/// One rank of the step, as 22.4 would run it by this plan.
class PlannedStep {
 public:
  PlannedStep(Rank me, const ShardedStep& step) : me_(me), comm_(me.stream("comm")), step_(step), model_(me) {
    for (const std::size_t elements : step.elements)
      shares_.push_back(me.allocate(elements / kRanks, DType::f32, Category::buffer));
    whole_.resize(step.units());
    gathered_.resize(step.units());
  }

  double seconds(const std::vector<Moment>& plan, Run how, const Race& race) {
    return model_.measure([&] {
      if (how == Run::gathers_alone) return gather_all();
      for (std::size_t t = 0; t < step_.moments(); ++t) moment(t, plan[t], how == Run::planned, race.work);
      me_.wait(reduced_);
    })[2];
  }

 private:
  void gather(std::size_t u) {
    const Slice whole = me_.allocate(step_.elements[u], DType::f32, Category::parameter);
    whole_[u] = whole;
    gathered_[u] = me_.run(comm_, [whole, share = shares_[u]](Rank queue) {
      copy(queue, chunk(whole, queue.rank(), queue.size()), share);
      week21::ring_all_gather(queue, whole);
    });
  }
  void gather_all() {
    for (std::size_t t = 0; t < step_.moments(); ++t) {
      gather(step_.used_at(t));
      me_.wait(gathered_[step_.used_at(t)]);
    }
  }
  void moment(std::size_t t, const Moment& moment, bool gathers, int work) {
    const std::size_t used = step_.used_at(t);
    if (gathers)
      for (const std::size_t u : moment.gather) gather(u);
    if (gathers) me_.wait(gathered_[used]);
    model_.work(t < step_.units() ? work : 2 * work);
    if (t >= step_.units()) reduce(step_.elements[used]);
    if (gathers)
      for (const std::size_t u : moment.free) whole_[u] = {}, gathered_[u] = {};
  }
  void reduce(std::size_t elements) {
    const Slice gradients = me_.allocate(elements, DType::f32, Category::gradient);
    me_.wait(reduced_before_);  // no more than one unit of gradients is in flight
    reduced_before_ = reduced_;
    reduced_ = me_.run(comm_, [gradients](Rank queue) { week21::ring_reduce_scatter(queue, gradients); });
  }

  Rank me_, comm_;
  const ShardedStep& step_;
  TimedModel model_;
  std::vector<Slice> shares_, whole_;
  std::vector<Ticket> gathered_;
  Ticket reduced_, reduced_before_;
};

struct Seen {
  double seconds = 0, bytes = 0;  // of the slowest rank; the most that was gathered at one time
};

Seen seen(const Race& race, const std::vector<Moment>& plan, Run how) {
  const ShardedStep step = race.step();
  testing::CasePlan cases{.ranks = {kRanks}, .sizes = sizes_of({step.units()}), .unit = "unit"};
  cases.simulator_only = "overlap is measured in virtual time";
  cases.adjust = [](const Case&, RunOptions& options) {
    options.phantom = true;
    options.perturb.reset();  // its delays would be measured
    options.machine = Machine::uniform(1e-6, 1e-9, 1e-12);
    options.machine.peak_flop_per_second.fill(2.0 * kTimedSide * kTimedSide * kTimedSide / kWork);
  };
  Seen all;
  run_cases(
      [&](Rank me, const Case&) {
        PlannedStep one(me, step);
        const double seconds = one.seconds(plan, how, race);
        return Values{seconds, static_cast<double>(ledger_of(me).memory.peak_of(Category::parameter))};
      },
      [&](const Case&, const Outcome& outcome) -> std::string {
        for (const Values& values : outcome.values) {
          all.seconds = std::max(all.seconds, values[0]);
          all.bytes = std::max(all.bytes, values[1]);
        }
        return "";
      },
      cases);
  return all;
}

TEST(Lab22_7, HidesNineTenthsOfItsGathers) {
  double sum = 0;
  for (const Race& race : races()) {
    const ShardedStep step = race.step();
    const std::vector<Moment> plan = open_gathers(step);
    if (std::string wrong = Follower(step).follow(plan); !wrong.empty()) FAIL() << race.name << ": " << wrong;
    const Seen mine = seen(race, plan, Run::planned), bare = seen(race, plan, Run::without_gathers);
    const Seen gathers = seen(race, plan, Run::gathers_alone);
    if (HasFailure() || IsSkipped()) return;  // not the simulator
    ASSERT_GT(mine.seconds, 0) << race.name << ": a step takes time";
    ASSERT_LE(mine.bytes, 4.0 * static_cast<double>(step.most_elements)) << race.name << ": bytes gathered at one time";
    const double exposed = mine.seconds - bare.seconds, hidden = 1 - exposed / gathers.seconds;
    const std::string words =
        fmt::format("{:.2f} of {:.2f} ms of gathers are exposed", exposed * 1e3, gathers.seconds * 1e3);
    ASSERT_GE(hidden, 0.9) << race.name << ": " << words << ", " << fmt::format("{:.1f}", 100 * hidden)
                           << "% are hidden. At least 90% must be: where does main wait for a gather that could have "
                              "begun before?";
    note_score(race.name, hidden, words);
    sum += hidden;
  }
  note_score("all three", sum / static_cast<double>(races().size()), "mean");
}

}  // namespace
}  // namespace lockstep::week22::open_gathers_test
