// Given: tensor parallelism for blocks other than GPT-2's, which weeks 23.2, 23.3 and 23.5 cover. The same linear
// layers (23.1, or 23.5 between sharded rows) surround the local computation on a rank's heads and channels. Embedding,
// head and loss are those of 23.4.
#pragma once

#include <memory>
#include <vector>

#include "common/gpt/model/gpt.hpp"
#include "labs/week23_tensor_parallel/parallel_linear.hpp"

namespace lockstep::week25 {

/// Returns the layers of a model with this config; its `tensor` is {tp.group.rank(), tp.group.size(), …}. With
/// `overlap_scatter`, under sequence parallelism, the gradient of a column-parallel layer's input is reduce-scattered
/// on tp.comm while main computes the weight gradient (23.1d does so with an all-reduce, 23.5 does not), like
/// Megatron-LM since 2022.
std::shared_ptr<const Layers> make_layers(const week23::TensorParallel& tp, const GptConfig& config,
                                          bool overlap_scatter = false);

/// A CutTensor: week23::cut_tensor for GPT-2's block; for others, shards the heads of q and of k and v by the rows of
/// 23.2b, and gate and up each by the rows of 23.1e.
std::vector<TensorRun> cut_tensor(const GptConfig& config, const Parameter& own);

}  // namespace lockstep::week25
