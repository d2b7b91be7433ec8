// Between a serial model's values and those of one of the ranks that share it, on the host: nothing is lost either way.
#pragma once

#include <vector>

#include "common/model/gpt.hpp"

namespace lockstep {

/// What rank config.tensor.rank holds of a serial model's flat values (or of m, or v); padding is 0. `config` is the
/// part's, with the whole model's sizes.
std::vector<float> cut_values(const GptConfig& config, const std::vector<float>& serial);

/// Puts what that rank holds into its place in a serial model's values; padding is dropped.
void join_values(const GptConfig& config, const std::vector<float>& own, std::vector<float>& serial);

/// sum[0] += Σ x² over the whole model, on every rank of `group`: what ranks hold alike counts once. `flat` is the
/// rank's values or gradients, by its parameters' table. One all-reduce of one number by `all_reduce`.
void add_model_squares(Rank group, Slice sum, const Parameters& parameters, Slice flat,
                       const std::function<void(Rank, Slice)>& all_reduce);

}  // namespace lockstep
