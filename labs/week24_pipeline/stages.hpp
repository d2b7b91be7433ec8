// Exercise 24.1: stages. A model is split into parts of about equal cost, and one interpreter runs any schedule on
// them: it receives what a step needs, computes, and sends what the next stage waits for.
//
// Huang et al., "GPipe" (arXiv 1811.06965); Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
// Clusters" (arXiv 2104.04473), section 2.2.
#pragma once

#include <string>
#include <vector>

#include "common/gpt/pipeline/stage.hpp"

namespace lockstep::week24 {

/// Part a. Neighbouring layers for each part: layers [first[k], first[k + 1]) are part k's, so first has parts + 1
/// elements, from 0 to the number of layers, and every part has at least one layer. The largest sum of `costs` (> 0, of
/// each layer) of a part is as small as it can be. Fewer layers than parts are a USAGE error that names both.
std::vector<std::size_t> partition(const std::vector<double>& costs, int parts);

/// The group of a pipeline and its queues, made by make_pipeline. Link l joins stage l and stage l + 1; the last one
/// joins the last stage and the first, for chunks. A stage receives on one link and sends on the next, so neighbouring
/// links have queues of their own: on one queue a stage could not receive a microbatch before it has sent the one
/// before. Chunks in a V (24.8) pass each pair of stages in both directions: link p + l is the odd chunks' of stages l
/// and l + 1.
struct Pipeline {
  Rank group;  ///< on main; its rank is the stage
  PipelineShape shape;
  std::vector<Rank> down;  ///< by link, for activations
  std::vector<Rank> up;    ///< by link, for gradients
};
/// The end of the names of the queues of a V's odd chunks.
inline constexpr const char* kBack = ", back";
/// Returns the queue of a stage that a link has: neighbouring links have different ones.
inline std::string link_name(int stages, int link) {
  const std::string parity = link % stages % 2 == 0 ? "even" : "odd";
  if (link >= stages) return parity + kBack;
  // The link from the last stage to the first has no neighbour of its parity to share with, when stages are odd.
  return link + 1 == stages ? "around" : parity;
}
/// Given. Collective over `group`, at set-up; shape.stages is its size.
inline Pipeline make_pipeline(Rank group, PipelineShape shape) {
  if (shape.stages != group.size())
    usage_error("a pipeline of " + std::to_string(shape.stages) + " stages on " + std::to_string(group.size()) +
                " ranks");
  if (shape.stages == 1 && shape.chunks > 1)
    usage_error("interleaving needs at least two stages: with one stage all chunks are on the same rank");
  Pipeline pipeline{group, shape, {}, {}};
  const int links = shape.placement == Placement::vee ? 2 * shape.stages : shape.stages;
  for (int link = 0; link < links; ++link) {
    pipeline.down.push_back(group.stream("down " + link_name(shape.stages, link)));
    pipeline.up.push_back(group.stream("up " + link_name(shape.stages, link)));
  }
  return pipeline;
}

// Given: the neighbours of a stage.

/// The stage that a chunk of this stage gets its input from, or sends its output to; −1: none, or the stage itself, at
/// the bottom of a V. The link is the same for both directions.
struct Neighbour {
  int stage = -1;
  int link = 0;
};
/// The stage of a part, as a neighbour of this one.
inline Neighbour neighbour(const Pipeline& pipeline, int chunk, int part) {
  const PipelineShape& shape = pipeline.shape;
  if (part < 0 || part >= shape.stages * shape.chunks) return {};
  const int mine = pipeline.group.rank(), other = chunk_of_part(shape, part).stage;
  if (other == mine) return {};
  const bool around = shape.placement == Placement::around && chunk_of_part(shape, part).chunk != chunk;
  const int link = around ? shape.stages - 1 : mine < other ? mine : other;
  return {other, link + (goes_up(shape, chunk) ? shape.stages : 0)};
}
inline Neighbour before(const Pipeline& pipeline, int chunk) {
  return neighbour(pipeline, chunk, part_of(pipeline.shape, pipeline.group.rank(), chunk) - 1);
}
inline Neighbour after(const Pipeline& pipeline, int chunk) {
  return neighbour(pipeline, chunk, part_of(pipeline.shape, pipeline.group.rank(), chunk) + 1);
}

/// Part b. Runs this stage's steps on `model`, in order, with the slices that StageModel asks for: empty ones at the
/// ends of the model. Main never blocks on a send: receives are posted one ahead, sends run on the queue of their link.
/// At most two sends of a link are in use at once: main waits for the last but one, which has long arrived. At the end
/// main waits for nothing.
void run_schedule(const Pipeline& pipeline, const StageSchedule& steps, StageModel& model);

}  // namespace lockstep::week24
