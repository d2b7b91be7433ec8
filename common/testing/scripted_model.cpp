#include "common/testing/scripted_model.hpp"

#include <cmath>

#include "common/arithmetic.hpp"
#include "common/testing/drawn.hpp"

namespace lockstep::testing {

Parameters scripted_parameters(Rank me, std::size_t tensors) {
  Parameters parameters;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < tensors; ++i) {
    const std::size_t size = 1 + (i * 7 + 3) % 13;
    parameters.list.push_back({"layer" + std::to_string(i), offset, size, 1, size});
    offset += size;
  }
  parameters.values = me.allocate(offset, DType::f32, Category::parameter);
  parameters.gradients = me.allocate(offset, DType::f32, Category::gradient);
  std::vector<float> values(offset);
  for (std::size_t i = 0; i < offset; ++i) values[i] = static_cast<float>(1000 * me.rank() + static_cast<int>(i) + 1);
  upload(me, parameters.values, values);
  return parameters;
}

float scripted_gradient(int rank, int window, int pass, std::size_t element) {
  const auto number = [](int n) { return static_cast<std::uint64_t>(n); };
  const std::uint64_t shift = drawn({number(rank), number(window), number(pass)}, 31);
  // One bit for each of ten ranks; more ranks share bits, so that sums stay below 2^24, exact in fp32.
  return static_cast<float>(64 * (1 << rank % 10) * (1 + pass) + 4096 * window +
                            static_cast<int>((element + shift) % 31) + 1);
}

void add_scripted_gradient(Rank me, const Parameters& parameters, std::size_t index, int rank, int window, int pass) {
  const Parameter& parameter = parameters.list[index];
  std::vector<float> values(parameter.size);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = scripted_gradient(rank, window, pass, parameter.offset + i);
  Slice scratch = me.allocate(parameter.size, DType::f32, Category::buffer);
  upload(me, scratch, values);
  add(me, parameters.gradient(index), scratch);
}

double ScriptedWindow::own(int rank, std::size_t index, std::size_t element, int first) const {
  double total = 0;
  for (int pass = first; pass < passes; ++pass)
    if (!uses || uses(rank, window, pass, index)) total += scripted_gradient(rank, window, pass, element);
  return total;
}

double ScriptedWindow::sum(std::size_t index, std::size_t element, int first) const {
  double total = 0;
  for (int rank = 0; rank < ranks; ++rank) total += own(rank, index, element, first);
  return total;
}

double ScriptedWindow::average(std::size_t index, std::size_t element) const {
  return static_cast<float>(sum(index, element)) * (1.0f / static_cast<float>(ranks));
}

std::string ScriptedWindow::explain(double value, int rank, std::size_t index, std::size_t element) const {
  const auto near = [value](double candidate) { return std::abs(value - candidate) <= 1e-6 * std::abs(candidate); };
  const double total = sum(index, element), mine = own(rank, index, element);
  if (std::isnan(value)) return "uninitialised memory (new memory is filled with NaN)";
  if (value == 0 && ranks > 1 && mine != 0)
    return "0: it was zeroed, or multiplied by 1 / p of two ints, which is 0 in C++";
  if (near(total)) return "the sum over the ranks: it was not divided by p";
  if (near(total / ranks)) return "the average, but rounded otherwise: all-reduce first, then multiply by 1/p, once";
  if (near(mine)) return "this rank's own gradient: its bucket was not averaged";
  if (near(mine / ranks)) return "this rank's own gradient divided by p: its bucket was not all-reduced";
  if (near(total / ranks / ranks)) return "the sum divided by p twice";
  if (passes > 1 && near(sum(index, element, passes - 1) / ranks))
    return "the average of the last pass alone: what was accumulated before it is lost";
  if (passes > 1 && near(mine - own(rank, index, element, passes - 1) + sum(index, element, passes - 1) / ranks))
    return "the last pass averaged, and this rank's own earlier passes on top";
  return "not the average of any gradients: averaged before it was final, or read before it was averaged";
}

}  // namespace lockstep::testing
