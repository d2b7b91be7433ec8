// A model's parameters as the optimizer and data parallelism see them: one flat slice of values, one flat slice of
// gradients, and a table of the tensors' positions. Independent of the model.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/slice.hpp"

namespace lockstep {

/// One tensor: elements [offset, offset + size) of the flat slices. Row-major rows × columns; vectors have one row.
struct Parameter {
  std::string name;
  std::size_t offset = 0;
  std::size_t size = 0;
  std::size_t rows = 0;
  std::size_t columns = 0;
  bool cut = false;  // in tensor parallelism: true if ranks hold different parts, false if the tensor is replicated
};

/// All tensors, in the order of their first use in the forward pass, without gaps. Values and gradients have the same
/// length and may differ in dtype.
struct Parameters {
  std::vector<Parameter> list;
  Slice values;
  Slice gradients;

  std::size_t count() const { return values.size(); }  ///< elements in all tensors
  Slice value(std::size_t index) const { return values.cut(list[index].offset, list[index].size); }
  Slice gradient(std::size_t index) const { return gradients.cut(list[index].offset, list[index].size); }
};

/// Callback of a backward pass: called as soon as the gradient of parameter `index` (of Parameters::list) is final for
/// this microbatch. Called once per parameter, roughly from last to first. Data parallelism starts its communication
/// here.
using GradientReady = std::function<void(std::size_t index)>;

/// The tensors that each piece of a model uses, by their indices in the table; pieces are in the order of the forward
/// pass. A tensor may be in several: a tied embedding is in the first and in the last.
using UsageOrder = std::vector<std::vector<std::size_t>>;

/// Callback of a model: called before it runs one of its pieces, numbered in the order of the forward pass. Sharded
/// parameters are gathered here.
using BeforePiece = std::function<void(std::size_t piece)>;

}  // namespace lockstep
