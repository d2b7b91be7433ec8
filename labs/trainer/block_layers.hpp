// Given: tensor parallelism of blocks that are not GPT-2's, of which weeks 23.2, 23.3 and 23.5 are: the same linear
// layers (23.1, or 23.5 between sharded rows) around what a rank's heads and channels do alone. Embedding, head and
// loss stay 23.4's.
#pragma once

#include <memory>
#include <vector>

#include "common/gpt/model/gpt.hpp"
#include "labs/week23_tensor_parallel/parallel_linear.hpp"

namespace lockstep::week25 {

/// The layers of a model with this config, whose tensor is {tp.group.rank(), tp.group.size(), …}. With
/// `overlap_scatter`, between sharded rows, the gradient of a column-parallel layer's input is scattered on tp.comm
/// while main computes that of its weight (23.1d does so with an all-reduce, 23.5 does not), as Megatron-LM does since
/// 2022.
std::shared_ptr<const Layers> make_layers(const week23::TensorParallel& tp, const GptConfig& config,
                                          bool overlap_scatter = false);

/// As CutTensor: week23::cut_tensor for GPT-2's block; of others, heads of q and of k and v by 23.3a's rows, and the
/// gate and up each by 23.1e's.
std::vector<TensorRun> cut_tensor(const GptConfig& config, const Parameter& own);

}  // namespace lockstep::week25
