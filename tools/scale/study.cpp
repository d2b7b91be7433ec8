#include "tools/scale/study.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/runtime/has_cores.hpp"
#include "common/support/text/counted.hpp"
#include "tools/train/program.hpp"

namespace lockstep::scaling {
namespace {

std::string program_of(const train::TrainPlan& plan) {
  const train::TrainRequest& r = plan.request;
  const week25::Options3d& o = plan.step;
  std::string name = plan.run.ranks == 1 ? "serial" : fmt::format("{} ranks", plan.run.ranks);
  if (o.mesh.tp > 1) name += fmt::format(", tensor-parallel by {}", o.mesh.tp);
  if (o.mesh.pp > 1) name += fmt::format(", {} stages ({})", o.mesh.pp, o.schedule);
  if (o.cp > 1) name += fmt::format(", context-parallel by {}", o.cp);
  if (o.replicas() > 1)
    name += fmt::format(", {} replicas{}", o.replicas(), o.zero > 0 ? fmt::format(" (ZeRO-{})", o.zero) : "");
  if (!r.compress.empty()) name += ", " + r.compress + (r.no_feedback ? " without feedback" : "");
  name += ", " + counted(o.microbatches, "microbatch");
  if (r.threads > 0) name += ", " + counted(r.threads, "thread") + " each";
  return name;
}

/// One contender: prepared once, run in every round.
class Contender {
 public:
  Contender(const train::TrainRequest& request, int available_ranks)
      : plan_(train::make_plan(request, available_ranks)) {
    point_.ranks = request.ranks;
    point_.program = program_of(plan_);
    point_.fits_cores = has_cores(plan_.run);
  }

  void run_round() {
    train::TrainLog log(plan_, nullptr);
    checkpoint::Disk disk;
    train::StopSignals no_signals(false);
    const Outcome outcome =
        run(plan_.run, [&](Rank me) { return train::train_rank(me, plan_, log, disk, no_signals); });
    outcome.check();
    if (!is_judge()) return;
    const std::vector<double> steps = analysis::phase_seconds(outcome.trace, "step");
    point_.samples.insert(point_.samples.end(), steps.begin() + (steps.size() > 1 ? 1 : 0), steps.end());
    point_.why = analysis::why(outcome.trace);
  }

  Point measured() {
    if (point_.samples.empty()) return point_;
    point_.seconds = median(point_.samples);
    point_.tokens_per_second = static_cast<double>(plan_.tokens_per_step()) / point_.seconds.value;
    return point_;
  }

 private:
  train::TrainPlan plan_;
  Point point_;
};

Estimate ratio(const Median& a, const Median& b, double factor) {
  return {factor * a.value / b.value, factor * a.low / b.high, factor * a.high / b.low};
}

bool usable(const Point& point) { return point.fits_cores && !point.samples.empty(); }

}  // namespace

Study measure(const StudyOptions& options, int available_ranks) {
  StudyOptions o = options;
  if (o.training.log_every == 0) o.training.log_every = o.training.steps;  // who logs begins the next step late
  std::vector<Contender> serial, parallel;
  const std::size_t most = static_cast<std::size_t>(o.ranks.back());
  const std::size_t few = static_cast<std::size_t>(std::max(1, o.training.microbatches));
  for (std::size_t microbatches : {few, few * most})
    if (microbatches <= o.training.batch && (serial.empty() || most > 1)) {
      train::TrainRequest alone = train::for_one_rank(o.training);
      alone.microbatches = static_cast<int>(microbatches);
      serial.emplace_back(alone, available_ranks);
    }
  for (int ranks : o.ranks) {
    if (ranks == 1) continue;
    train::TrainRequest training = o.training;
    training.ranks = ranks;
    if (o.weak) training.batch *= static_cast<std::size_t>(ranks);
    parallel.emplace_back(training, available_ranks);
  }
  for (int round = 0; round < o.rounds; ++round) {
    for (Contender& contender : serial) contender.run_round();
    for (Contender& contender : parallel) contender.run_round();
  }
  Study study{.weak = o.weak};
  for (Contender& contender : serial) study.serials.push_back(contender.measured());
  for (Contender& contender : parallel) study.points.push_back(contender.measured());
  study.serial = *std::min_element(study.serials.begin(), study.serials.end(),
                                   [](const Point& a, const Point& b) { return a.seconds.value < b.seconds.value; });
  return study;
}

void apply_laws(Study& study) {
  for (Point& point : study.points) {
    if (!usable(point)) continue;
    const double p = point.ranks;
    point.speedup = ratio(study.serial.seconds, point.seconds, study.weak ? p : 1);
    point.efficiency = ratio(study.serial.seconds, point.seconds, study.weak ? 1 : 1 / p);
    if (study.weak) continue;
    // The larger the speedup, the smaller the fraction.
    const Estimate fraction = {week21::karp_flatt(point.speedup.value, point.ranks),
                               week21::karp_flatt(point.speedup.high, point.ranks),
                               week21::karp_flatt(point.speedup.low, point.ranks)};
    if (is_fraction(fraction)) point.karp_flatt = fraction;
  }
}

LawFit fit_law(const Study& study) {
  std::vector<week21::Measurement> points;
  for (const Point& point : study.points)
    if (usable(point)) points.push_back({point.ranks, point.seconds.value});
  return fit_law(study.weak, study.serial.seconds.value, points);
}

}  // namespace lockstep::scaling
