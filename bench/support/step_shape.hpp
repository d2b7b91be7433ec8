// The model and the batch of a training step, as benchmarks choose them. Tokens are the same in every run and on every
// computer. Each token's successor is its target.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "common/arithmetic.hpp"
#include "common/gpt/model/gpt.hpp"
#include "common/support/text/numbers.hpp"

namespace lockstep::bench {

struct StepShape {
  GptConfig model;
  std::size_t sequences = 0;
  std::size_t length = 0;  // tokens per sequence

  std::size_t tokens() const { return sequences * length; }
};

/// `length`: tokens, to which the model's context grows; 0: that context.
inline StepShape step_shape(const GptConfig& model, int sequences, int length) {
  StepShape shape{model, static_cast<std::size_t>(sequences), static_cast<std::size_t>(length)};
  if (length == 0) shape.length = shape.model.context;
  shape.model.context = std::max(shape.model.context, shape.length);
  return shape;
}

/// The options of a benchmark whose step is one preset's.
struct ModelOptions {
  std::string model = "tiny";
  int batch = 8;     // sequences
  int sequence = 0;  // tokens; 0: the model's context

  void declare(CommandLine& line, const std::string& batch_is) {
    line.add("--model", model, "a preset, as for ./lab train: tiny, small, gpt2-124m, …");
    line.add("--batch", batch, batch_is, kSequences);
    line.add("--sequence", sequence, "tokens per sequence; 0: the model's context", kTokens);
  }
  StepShape shape() const { return step_shape(gpt_preset(model), batch, sequence); }
};

/// Returns sequences first, first + 1, … of `length` tokens, all below `vocabulary`; a token's target is the next
/// token.
inline Batch counted_batch(Rank me, std::size_t first, std::size_t sequences, std::size_t length,
                           std::size_t vocabulary) {
  const auto tokens = [&](std::size_t shift) {
    std::vector<std::int32_t> values;
    values.reserve(sequences * length);
    for (std::size_t s = first; s < first + sequences; ++s)
      for (std::size_t t = shift; t < length + shift; ++t)
        values.push_back(static_cast<std::int32_t>((s * s + 3 * t + s * t) % vocabulary));
    Slice slice = me.allocate(values.size(), DType::i32, Category::buffer);
    upload(me, slice, values);
    return slice;
  };
  return {tokens(0), tokens(1), sequences, length};
}

}  // namespace lockstep::bench
