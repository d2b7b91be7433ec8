#include "common/model/reshard.hpp"

#include <algorithm>

namespace lockstep {

namespace {

/// f(first in the rank's flat values, first in the serial model's, elements) for every run that is no padding.
template <class F>
void for_runs(const GptConfig& config, const F& f) {
  GptConfig whole = config;
  whole.tensor = {};
  const std::vector<Parameter> own = gpt_parameter_table(config), serial = gpt_parameter_table(whole);
  for (std::size_t t = 0; t < own.size(); ++t)
    for (const TensorRun& run : tensor_runs(config, own[t]))
      if (run.serial != TensorRun::kPadding) f(own[t].offset + run.own, serial[t].offset + run.serial, run.size);
}

}  // namespace

std::vector<float> cut_values(const GptConfig& config, const std::vector<float>& serial) {
  std::vector<float> own(config.parameters());
  for_runs(config, [&](std::size_t to, std::size_t from, std::size_t count) {
    std::copy_n(serial.begin() + static_cast<std::ptrdiff_t>(from), count,
                own.begin() + static_cast<std::ptrdiff_t>(to));
  });
  return own;
}

void join_values(const GptConfig& config, const std::vector<float>& own, std::vector<float>& serial) {
  for_runs(config, [&](std::size_t from, std::size_t to, std::size_t count) {
    std::copy_n(own.begin() + static_cast<std::ptrdiff_t>(from), count,
                serial.begin() + static_cast<std::ptrdiff_t>(to));
  });
}

void add_model_squares(Rank group, Slice sum, const Parameters& parameters, Slice flat,
                       const std::function<void(Rank, Slice)>& all_reduce) {
  Slice own = group.allocate(1, DType::f32, Category::buffer);
  fill(group, own, 0);
  for (const Parameter& tensor : parameters.list)
    if (tensor.cut || group.rank() == 0) add_squares(group, own, flat.cut(tensor.offset, tensor.size));
  all_reduce(group, own);
  add(group, sum, own);
}

}  // namespace lockstep
