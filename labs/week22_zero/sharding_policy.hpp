// Exercise 22.9: what FSDP leaves to its user: which tensors make a unit, how far ahead units are gathered, and in
// which type values are kept, computed with and summed. 22.4's wrapper asks for the last two (FsdpPolicies).
//
// Follows Zhao et al., "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel", VLDB 2023 (arXiv
// 2304.11277), sections 3.3 and 4.2 to 4.4.
#pragma once

#include <functional>
#include <vector>

#include "labs/week22_zero/fsdp.hpp"

namespace lockstep::week22 {

// Part a: which tensors make a unit ----------------------------------------------------------------------------------

/// PyTorch: the auto-wrap policies of FSDP.
struct Wrapping {
  enum class Kind {
    whole_model,  ///< one unit
    each_block,   ///< a unit for each block; one for what comes before the first, one for what comes after the last
    each_layer,   ///< weight and bias of a layer
    at_least      ///< neighbouring tensors until there are `elements` of them
  };
  Kind kind = Kind::each_block;
  std::size_t elements = 0;
};

/// The units of a model: each tensor of the table in exactly one of them, in order. Tensors are named
/// "blocks.3.up.bias": block, layer, tensor; those outside the blocks have no "blocks.3.".
std::vector<Unit> wrap(const std::vector<Parameter>& table, Wrapping wrapping);

// Part b: how far ahead units are gathered ----------------------------------------------------------------------------

/// FsdpPolicies::gather_ahead: gathers further units, in their order, until `prefetch` are ahead of the used ones, or
/// all are gathered. Nothing is waited for.
std::size_t gather_ahead(const std::vector<std::size_t>& order, std::size_t used, std::size_t gathered, int prefetch,
                         const std::function<void(std::size_t unit)>& gather);

// Part c: types -------------------------------------------------------------------------------------------------------

/// FsdpPolicies::in_type: values of another type come to new memory of Category::buffer on `queue`, rounded to nearest.
Slice in_type(Rank queue, const Slice& values, DType type);

/// make_fsdp's options with these policies.
inline FsdpOptions with_policies(FsdpOptions options) {
  options.policies = {gather_ahead, in_type};
  return options;
}

}  // namespace lockstep::week22
