// Compares predictions with published measurements: ./lab validate.
//
// Three predictions of each: by simple arithmetic, which anything must beat; by the machine file alone, with which labs
// and simulator price; and by what the vendor's libraries reach (`library` in the file). Parameters of the last come
// from bench/published/calibrate and the sources that the machine files name; bench/published/predict decides nothing.
#pragma once

#include <string>
#include <vector>

#include "tools/plan/published_runs.hpp"
#include "tools/plan/terms.hpp"

namespace lockstep::plan {

struct Validated {
  std::string name;
  double published = 0;
  double simple = 0;   ///< 6 FLOP a parameter and token (8 with recomputation) at the published layer's share of the
                       ///< peak; of an all-reduce, a line α + nβ through the calibration's points
  double file = 0;     ///< by the machine file alone
  double library = 0;  ///< by its libraries' prices
  double memory_bytes = 0;  ///< that a run needs of a GPU, as we count; where it is published, as nvidia-smi shows
  double published_memory_bytes = 0;  ///< that it used; 0: not published
  double other =
      0;  ///< by its libraries' prices, if what the source leaves open was otherwise, farthest from `library`
  std::string chosen;  ///< of a run whose source leaves something open; and what it needs, where that is too much
  double error() const { return library / published - 1; }
  /// True if the published value lies between the cases that the source leaves open.
  bool bracketed() const { return other > 0 && (library - published) * (other - published) <= 0; }
  double memory_error() const { return memory_bytes / published_memory_bytes - 1; }
};

struct ValidatedTable {
  std::string name, source, unit;
  std::string doubt;             ///< why its predictions may be off; "": unknown
  bool overlap_assumed = false;  ///< as PublishedTable's
  std::vector<Validated> rows;
};

/// `root`: the folder that has bench/. `table`: a file; "": all that are to be predicted. `without`: terms of `library`
/// that are left out.
std::vector<ValidatedTable> validate(const std::string& root, const std::string& table = "",
                                     const Without& without = {});

/// Statistics of |predicted / published − 1|.
struct Deviation {
  double median = 0, mean = 0, worst = 0;
};
Deviation deviation(const ValidatedTable& table, double Validated::*predicted);
/// The same of memory, of the rows that say what they used.
Deviation memory_deviation(const ValidatedTable& table);

/// The share of the peak that one layer of the 22B model reaches on A100 (arXiv 2205.05198, Table 4, baseline).
double layer_utilisation(const std::string& root);

}  // namespace lockstep::plan
