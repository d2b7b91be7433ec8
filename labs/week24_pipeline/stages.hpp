// Exercise 24.1: stages. A model is cut into parts that cost about the same, and one interpreter runs any schedule on
// them: it receives what a step needs, computes, and sends on what the next stage waits for.
//
// Huang et al., "GPipe" (arXiv 1811.06965); Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
// Clusters" (arXiv 2104.04473), section 2.2.
#pragma once

#include <string>
#include <vector>

#include "common/gpt/pipeline/stage.hpp"

namespace lockstep::week24 {

/// Part a. Neighbouring layers for each part: layers [first[k], first[k + 1]) are part k's, so that first has parts + 1
/// elements, 0 and the number of layers at its ends, and every part has a layer. The largest sum of `costs` (> 0, of
/// each layer) of a part is as small as it can be. Fewer layers than parts are a USAGE error that names both.
std::vector<std::size_t> partition(const std::vector<double>& costs, int parts);

/// The group of a pipeline and its queues, made by make_pipeline. Link l joins stage l and stage l + 1; the last one
/// joins the last stage and the first, for chunks. A stage receives on one link and sends on the next, so neighbouring
/// links have queues of their own: on one queue a stage could not receive a microbatch before it has sent the one
/// before.
struct Pipeline {
  Rank group;  ///< on main; its rank is the stage
  PipelineShape shape;
  std::vector<Rank> down;  ///< by link, towards the last stage
  std::vector<Rank> up;    ///< by link, back
};
/// Given. Collective over `group`, at set-up; shape.stages is its size.
inline Pipeline make_pipeline(Rank group, PipelineShape shape) {
  if (shape.stages != group.size())
    usage_error("a pipeline of " + std::to_string(shape.stages) + " stages on " + std::to_string(group.size()) +
                " ranks");
  if (shape.stages == 1 && shape.chunks > 1)
    usage_error("chunks go round the stages: with one stage there is nowhere to go");
  Pipeline pipeline{group, shape, {}, {}};
  for (int link = 0; link < shape.stages; ++link) {
    // The link from the last stage to the first has no neighbour of its parity to share with, when stages are odd.
    const std::string number = link + 1 == shape.stages ? "around" : link % 2 == 0 ? "even" : "odd";
    pipeline.down.push_back(group.stream("down " + number));
    pipeline.up.push_back(group.stream("up " + number));
  }
  return pipeline;
}

// Given: who is where.

/// Where the input of chunk `chunk` of this stage comes from, and where its output goes; −1: from and to nowhere. The
/// link counts for both directions.
struct Neighbour {
  int stage = -1;
  int link = 0;
};
inline Neighbour before(const Pipeline& pipeline, int chunk) {
  const int stage = pipeline.group.rank(), last = pipeline.shape.stages - 1;
  if (stage > 0) return {stage - 1, stage - 1};
  return chunk > 0 ? Neighbour{last, last} : Neighbour{};
}

inline Neighbour after(const Pipeline& pipeline, int chunk) {
  const int stage = pipeline.group.rank(), last = pipeline.shape.stages - 1;
  if (stage < last) return {stage + 1, stage};
  return chunk + 1 < pipeline.shape.chunks ? Neighbour{0, last} : Neighbour{};
}

/// Part b. Runs this stage's steps on `model`, in order, with the slices that StageModel says: none from nowhere or to
/// nowhere. Nobody's main waits for a send: receives are posted one ahead, sends run on the queue of their link. At
/// most two sends of a link are in use at once: main waits for the one before the last, which has long arrived. What
/// main still waits for at the end is nothing.
void run_schedule(const Pipeline& pipeline, const StageSchedule& steps, StageModel& model);

}  // namespace lockstep::week24
