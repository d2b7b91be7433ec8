// Compares how fast a run has computed with what its hardware could: on GPUs as a share of their peak, on this
// computer's processor as a share of the fastest product that ./lab calibrate measured. Only the first is called MFU.
#pragma once

#include <cmath>
#include <string>

#include "common/runtime/machine/machine.hpp"
#include "tools/train/plan.hpp"

namespace lockstep::train {

struct Rate {
  double flop_per_second = NAN;  ///< of a rank: the model's, as PaLM counts (published_flop()), no recomputation
  double mfu = NAN;              ///< of the peak by the vendor's data sheet; NaN where that is not known
  double product_share = NAN;    ///< of the fastest product that was measured on this computer; NaN where none was
};

/// The speed that a run is compared with. At most one of the two is known.
struct Baseline {
  double peak = NAN;     ///< FLOP a second of a GPU, by data sheet, in the type that the run computes in
  double product = NAN;  ///< FLOP a second of the fastest product, measured
};

/// The machine's for a run that is priced or emulated; on real GPUs that of their model; otherwise that of the file
/// that ./lab calibrate has left for this computer. `backend` is that of the run, `modelled` whether its time is a
/// machine's. `root` is put before /proc, for tests.
Baseline baseline_of(const TrainPlan& plan, const std::string& backend, bool modelled, const std::string& root = "");

/// The roofs of a roofline: what one rank's arithmetic can reach at most. NaN where it is not known.
struct Roofs {
  double flop_per_second = NAN;   ///< of the type that the run computes in
  double bytes_per_second = NAN;  ///< of its memory
};

/// From the same machine as baseline_of(). Unlike its peak, a modelled processor's counts too.
Roofs roofs_of(const TrainPlan& plan, const std::string& backend, bool modelled, const std::string& root = "");

/// A step of `seconds`.
Rate rate_of(const TrainPlan& plan, double seconds, const Baseline& baseline);

/// The line of the summary; "" where there is no rate.
std::string rate_line(const Rate& rate);

}  // namespace lockstep::train
