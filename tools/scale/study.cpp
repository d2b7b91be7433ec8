#include "tools/scale/study.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/host/has_cores.hpp"
#include "tools/train/program.hpp"

namespace lockstep::scaling {
namespace {

/// The options of the serial program: one rank, and nothing that only ranks need.
train::TrainOptions serial_options(const train::TrainOptions& o, std::size_t microbatches) {
  train::TrainOptions serial = o;
  const train::TrainOptions none;
  serial.ranks = 1;
  serial.dp = none.dp;
  serial.tp = none.tp;
  serial.pp = none.pp;
  serial.schedule = none.schedule;
  serial.chunks = none.chunks;
  serial.zero = none.zero;
  serial.sequence_parallel = none.sequence_parallel;
  serial.reduce = none.reduce;
  serial.compress = none.compress;
  serial.no_feedback = none.no_feedback;
  serial.typed = {};  // what was asked for is for the ranks
  serial.accumulate = microbatches;
  return serial;
}

std::string program_of(const train::TrainOptions& o) {
  std::string name = o.ranks == 1 ? "serial" : fmt::format("{} ranks", o.ranks);
  const int replicas = o.ranks / (o.tp * o.pp);
  if (o.tp > 1) name += fmt::format(", tensor-parallel by {}", o.tp);
  if (o.pp > 1) name += fmt::format(", {} stages ({})", o.pp, o.schedule);
  if (replicas > 1)
    name += fmt::format(", {} replicas{}", replicas, o.zero > 0 ? fmt::format(" (ZeRO-{})", o.zero) : "");
  if (!o.compress.empty()) name += ", " + o.compress + (o.no_feedback ? " without feedback" : "");
  name += fmt::format(", {} microbatch{}", o.accumulate, o.accumulate == 1 ? "" : "es");
  if (o.threads > 0) name += fmt::format(", {} thread{} each", o.threads, o.threads == 1 ? "" : "s");
  return name;
}

/// One contender: prepared once, run in every round.
class Contender {
 public:
  Contender(const train::TrainOptions& options, int available_ranks)
      : plan_(train::make_plan(options, available_ranks)) {
    point_.ranks = options.ranks;
    point_.program = program_of(plan_.options);
    point_.fits_cores = has_cores(plan_.run);
  }

  void run_round() {
    train::TrainLog log(plan_, nullptr);
    checkpoint::Disk disk;
    const Outcome outcome = run(plan_.run, [&](Rank me) { return train::train_rank(me, plan_, log, disk); });
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
  train::Plan plan_;
  Point point_;
};

Estimate ratio(const Median& a, const Median& b, double factor) {
  return {factor * a.value / b.value, factor * a.low / b.high, factor * a.high / b.low};
}

bool usable(const Point& point) { return point.fits_cores && !point.samples.empty(); }

/// Whether it can be a share of the work: at most 1, and not below 0 by more than its interval and rounding allow.
bool is_fraction(const Estimate& e) {
  return e.value <= 1 + 1e-9 && (std::isfinite(e.high) ? std::max(e.value, e.high) : e.value) >= -1e-9;
}

/// s = (p − S)/(p − 1) of each weak point's scaled speedup S, through the origin.
Estimate fit_gustafson(const Study& study, const std::vector<const Point*>& points) {
  std::vector<std::vector<double>> design;
  std::vector<double> missing;
  for (const Point* point : points) {
    const double p = point->ranks;
    design.push_back({p - 1});
    missing.push_back(p - p * week21::weak_efficiency(study.serial.seconds.value, point->seconds.value));
  }
  const Fit fit = least_squares(design, missing);
  const double s = fit.coefficients[0], half = student_t95(fit.degrees_of_freedom) * fit.standard_errors[0];
  return {s, s - half, s + half};
}

Estimate fit_amdahl(const Study& study, const std::vector<const Point*>& points) {
  std::vector<week21::Measurement> times{{1, study.serial.seconds.value}};
  for (const Point* point : points) times.push_back({point->ranks, point->seconds.value});
  const week21::SerialFraction s = week21::fit_amdahl(times);
  return {s.value, s.low, s.high};
}

}  // namespace

Study measure(const StudyOptions& options, int available_ranks) {
  StudyOptions o = options;
  if (o.training.log_every == 0) o.training.log_every = o.training.steps;  // who logs begins the next step late
  std::vector<Contender> serial, parallel;
  const std::size_t most = static_cast<std::size_t>(o.ranks.back());
  const std::size_t few = std::max<std::size_t>(1, o.training.accumulate);
  for (std::size_t microbatches : {few, few * most})
    if (microbatches <= o.training.batch && (serial.empty() || most > 1))
      serial.emplace_back(serial_options(o.training, microbatches), available_ranks);
  for (int ranks : o.ranks) {
    if (ranks == 1) continue;
    train::TrainOptions training = o.training;
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
  const std::string law = study.weak ? "Gustafson" : "Amdahl";
  std::vector<const Point*> points;
  for (const Point& point : study.points)
    if (usable(point)) points.push_back(&point);
  const std::size_t numbers = points.size() + 1;
  if (numbers < 3)
    return {{},
            fmt::format("{}: no fit: {} of ranks with a core each; a fit needs 3, else it repeats the speedup above",
                        law, numbers == 1 ? "no number but 1" : "1 and one more number")};
  Estimate fraction = study.weak ? fit_gustafson(study, points) : fit_amdahl(study, points);
  const bool interval = numbers > 3;
  if (!interval) fraction.low = fraction.high = std::nan("");
  if (!is_fraction(fraction))
    return {{},
            fmt::format("{}: no serial fraction describes these times: {}", law,
                        fraction.value > 1 ? "more ranks take longer, which is overhead that grows with them"
                                           : "ranks are faster than their share, so that each does less than the "
                                             "serial program (caches, memory, other products)")};
  const std::string range =
      interval ? fmt::format("95 %: {:.4f} – {:.4f}", fraction.low, fraction.high) : "too few for an interval";
  return {fraction, fmt::format("{}: serial fraction {:.4f}, from {} numbers of ranks ({})", law, fraction.value,
                                numbers, range)};
}

}  // namespace lockstep::scaling
