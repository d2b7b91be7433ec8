// A scaling study: ./lab train's program on several numbers of ranks, against the best serial program. What is measured
// stands here; what it means in law.hpp's fits (week 21) and in diagnosis.hpp.
#pragma once

#include <string>
#include <vector>

#include "common/analysis/why.hpp"
#include "common/support/stats/stats.hpp"
#include "tools/scale/law.hpp"
#include "tools/train/request.hpp"

namespace lockstep::scaling {

struct StudyOptions {
  bool weak = false;             // the batch of each rank stays; strong: that of all
  std::vector<int> ranks;        // sorted; 1 is the serial program
  int rounds = 1;                // every number of ranks in turn, so that what disturbs one disturbs all
  train::TrainRequest training;  // as for one run; ranks and (weak) batch are set for each
};

/// One number of ranks.
struct Point {
  int ranks = 1;
  std::string program;          // "serial, 1 microbatch, 1 thread", or what runs in parallel
  std::vector<double> samples;  // seconds of steps, the slowest rank's, all rounds
  Median seconds;
  double tokens_per_second = 0;
  bool fits_cores = true;  // else what follows stays empty
  Estimate speedup, efficiency, karp_flatt;
  analysis::Why why;  // of the last round
};

struct Study {
  bool weak = false;
  Point serial;                // the fastest of the serial candidates
  std::vector<Point> serials;  // all of them
  std::vector<Point> points;   // by ranks, without 1
};

/// Runs everything; every process of MPI calls it, and the one that judges gets what was measured. Throws what a run
/// failed with, and Error(usage) as make_plan.
Study measure(const StudyOptions& options, int available_ranks);

/// Speedup, efficiency and Karp–Flatt of every point that has a core for each rank; from medians, with the ranges that
/// the medians' intervals allow. A Karp–Flatt fraction above 1, or below 0 with all its range, is none: it stays empty.
void apply_laws(Study& study);

/// The law of the study's kind, fitted to the medians of points that have a core for each rank.
LawFit fit_law(const Study& study);

}  // namespace lockstep::scaling
