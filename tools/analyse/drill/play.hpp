// The program of a drill: week 25's worker, made of all weeks' answers, trains a small GPT on text, on the virtual
// cluster. A fault may be planted in it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/gpt/data/corpus.hpp"
#include "common/runtime/run.hpp"
#include "labs/trainer/options_3d.hpp"
#include "tools/analyse/drill/fault.hpp"

namespace lockstep::drill {

struct Job {
  std::string title;
  week25::Options3d options;
  Machine machine;
  int steps = 5;
  float learning_rate = 3e-3f;
  float max_norm = 1;

  int ranks() const { return options.mesh.ranks(); }
};

/// One rank's view of one step.
struct StepSeen {
  int rank = 0;
  int step = 0;              ///< from 0
  double begin = 0;          ///< ranks leave the set-up one after the other
  double seconds = 0;        ///< that it took
  double loss = 0;           ///< this rank's part; over all ranks they add up to dp · tp times the loss
  double norm = 0;           ///< of the gradient, before clipping, as this rank has it
  std::uint32_t values = 0;  ///< a checksum of the parameters after it
};

/// A gradient bucket's all-reduce on one rank: what NCCL's flight recorder would know of it.
struct Collective {
  int rank = 0;
  int number = 0;  ///< of this rank's, from 1
  int step = 0;    ///< from 0
  std::uint64_t bytes = 0;
  bool ended = false;
  std::uint32_t result = 0;  ///< a checksum of the sum, once it has ended
};

struct Played {
  Outcome outcome;
  std::vector<StepSeen> steps;  ///< those that ended
  std::vector<Collective> collectives;
  std::vector<std::uint64_t> across_nodes;  ///< by rank: bytes that it sent to other nodes in all steps
  std::map<Step, std::string> step_names;   ///< of a pipeline, for traces
};

/// Trains in the simulator, traced, with `fault` planted.
Played play(const Job& job, const Corpus& corpus, const Fault& fault);

}  // namespace lockstep::drill
