// Amdahl's and Gustafson's law fitted to the times of a scaling study, by exercise 25.4; of ./lab scale and ./lab bench
// scaling.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "labs/week21_data_parallel/scaling_laws.hpp"

namespace lockstep::scaling {

struct Estimate {
  double value = std::nan("");
  double low = std::nan("");
  double high = std::nan("");
};

/// True if it can be a share of the work: at most 1, and not below 0 by more than its interval and rounding allow.
bool is_fraction(const Estimate& e);

/// Amdahl's serial fraction of a strong study, Gustafson's of a weak one, fitted to one time for each number of
/// ranks: times of one number repeat what is wrong with the law there. Two numbers of ranks are no fit, three leave
/// too little for an interval, and a fraction that is none (as above) describes nothing; what is missing is NaN.
struct LawFit {
  Estimate fraction;
  std::string sentence;  ///< the fraction, or why there is none
};
/// `points`: seconds on p ≥ 2 ranks with a core each; `serial_seconds`: T(1).
LawFit fit_law(bool weak, double serial_seconds, const std::vector<week21::Measurement>& points);

}  // namespace lockstep::scaling
