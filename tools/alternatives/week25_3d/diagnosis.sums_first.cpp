// 25.4 from sums over the ranks; losses in a loop that keeps the largest; and the most ranks by bisection.
#include "labs/week25_3d/diagnosis.hpp"

#include <algorithm>
#include <climits>
#include <string>

#include "common/error.hpp"
#include "common/support/stats/stats.hpp"

namespace lockstep::week25 {

Decomposition decompose(const StepLedgers& step) {
  double arithmetic = 0, launch = 0;
  const RankStep* busy = &step.ranks[0];
  for (const RankStep& rank : step.ranks) {
    arithmetic += rank.arithmetic;
    launch += rank.launch;
    if (rank.arithmetic > busy->arithmetic) busy = &rank;
  }
  const double p = static_cast<double>(step.ranks.size());
  const double wire = busy->bytes * step.seconds_per_byte + step.latency * busy->messages;
  const double waits = step.seconds - busy->arithmetic;
  const double exposed = std::clamp(wire - busy->hidden, 0.0, std::max(0.0, waits));
  return {.compute = (arithmetic - launch) / p,
          .launch = launch / p,
          .imbalance = busy->arithmetic - arithmetic / p,
          .exposed = exposed,
          .bubble = waits - exposed,
          .wire = wire};
}

Diagnosis name_limit(const Decomposition& parallel, const Decomposition& serial, int ranks, Scaling scaling) {
  const double parts = scaling == Scaling::strong ? ranks : 1;
  Diagnosis found;
  found.ideal = serial.seconds() / parts;
  found.lost = parallel.seconds() - found.ideal;
  if (found.lost < kWorthNaming * parallel.seconds()) return found;
  const auto consider = [&](Limit limit, double Decomposition::*cost) {
    const double loss = parallel.*cost - serial.*cost / parts;
    if (found.limit != Limit::none && loss <= found.most) return;
    found.limit = limit;
    found.most = loss;
  };
  consider(Limit::repeated, &Decomposition::compute);
  consider(Limit::launch, &Decomposition::launch);
  consider(Limit::imbalance, &Decomposition::imbalance);
  consider(Limit::bubble, &Decomposition::bubble);
  const bool too_much = parallel.wire > parallel.compute + parallel.launch;
  consider(too_much ? Limit::communication : Limit::not_overlapped, &Decomposition::exposed);
  return found;
}

namespace {

std::vector<Measured> with_cores(const std::vector<Measured>& times) {
  std::vector<Measured> kept = times;
  std::erase_if(kept, [](const Measured& time) { return !time.has_cores; });
  return kept;
}

}  // namespace

week21::SerialFraction fit_strong(const std::vector<Measured>& times) {
  std::vector<week21::Measurement> measurements;
  for (const Measured& time : with_cores(times)) measurements.push_back({time.ranks, time.seconds});
  return week21::fit_amdahl(measurements);
}

week21::SerialFraction fit_weak(const std::vector<Measured>& times) {
  double alone = 0;
  int of_one = 0;
  for (const Measured& time : times)
    if (time.ranks == 1) alone += time.seconds, ++of_one;
  if (of_one == 0) throw Error(Verdict::usage, "there is no time on one rank");
  std::vector<std::vector<double>> rows;
  std::vector<double> values;
  for (const Measured& time : with_cores(times)) {
    if (time.ranks < 2) continue;
    const double p = time.ranks, speedup = p * (alone / of_one) / time.seconds;
    rows.push_back({p - 1});
    values.push_back(p - speedup);
  }
  if (values.size() < 2) throw Error(Verdict::usage, "too few times on several ranks");
  const Fit line = least_squares(rows, values);
  const double half = line.standard_errors.at(0) * student_t95(line.degrees_of_freedom);
  return {line.coefficients.at(0), line.coefficients.at(0) - half, line.coefficients.at(0) + half};
}

int most_ranks(double serial_fraction, double efficiency) {
  if (!(efficiency > 0) || efficiency > 1) throw Error(Verdict::usage, "no efficiency: " + std::to_string(efficiency));
  const auto enough = [&](long p) {
    return 1 / (1 + serial_fraction * static_cast<double>(p - 1)) >= efficiency * (1 - 1e-12);
  };
  if (serial_fraction <= 0 || enough(INT_MAX)) return INT_MAX;
  long yes = 1, no = INT_MAX;
  while (no - yes > 1) (enough((yes + no) / 2) ? yes : no) = (yes + no) / 2;
  return static_cast<int>(yes);
}

}  // namespace lockstep::week25
