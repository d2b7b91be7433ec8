// Predicts what training sends from the layout, by the formulas of the weeks.
#pragma once

#include <string>

#include "tools/train/plan.hpp"

namespace lockstep::train {

/// Reduce-scatters and all-gathers of all gradients or values in a step (22.1): each sends Ψ(d − 1)/d elements.
int data_halves(const week25::Options3d& step);
/// Likewise of N × C activations, for each block, along the tensor axis (week 23).
int tensor_halves(const week25::Options3d& step);
/// Messages with a block's keys and values that a rank sends in a step (23.6).
int context_messages(const week25::Options3d& step);

/// Bytes that a rank sends in a step along each axis, the mean over all ranks.
struct AxisBytes {
  double data = 0, context = 0, tensor = 0, pipeline = 0;
  double all() const { return data + context + tensor + pipeline; }
};

/// The mean over the steps after `first_step`. To the byte, since the chunks of a ring, however unequal, are together
/// the whole.
AxisBytes predicted_traffic(const TrainPlan& plan, int first_step);
/// Their sum.
double predicted_bytes(const TrainPlan& plan, int first_step);

/// For a model with experts, the part that is not in it: the rows that leave their rank. A rank's router sends
/// `one_way` bytes of them in a step. They go there and back, forward and backward.
inline double mixture_bytes(double one_way) { return 4 * one_way; }
/// The mean of `one_way` over ranks, if routers spread their rows evenly.
double even_mixture_bytes(const TrainPlan& plan);

/// In words: how `predicted_bytes` comes about.
std::string traffic_formula(const TrainPlan& plan);

}  // namespace lockstep::train
