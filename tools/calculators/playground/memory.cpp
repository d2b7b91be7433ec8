// GPU memory by ZeRO stage: what `./lab memory` prints, by the formulas of 22.1 or a tool's own counts.
#include <array>

#include "labs/week22_zero/memory_calculator.hpp"
#include "tools/analyse/view/json_text.hpp"
#include "tools/calculators/playground/answer.hpp"
#include "tools/calculators/recipes.hpp"

namespace lockstep::playground {

namespace {

struct Kind {
  std::string name;
  std::array<double, 4> bytes{};  // by ZeRO stage
};

/// Bytes of each kind of model state, in each stage of ZeRO.
struct State {
  std::vector<int> stages{0, 1, 2, 3};
  std::vector<Kind> kinds;
  std::string source;
};

/// Model state by the paper's formula: bf16 with an fp32 copy, fp32, or 16 bits alone.
State by_formula(const std::string& dtype, double parameters, int ranks) {
  const week22::Recipe recipe = week22::recipe_of(dtype == "f32" ? DType::f32 : DType::bf16, dtype != "bf16-only");
  State state{.kinds = {{"parameters"}, {"gradients"}, {"optimizer state"}},
              .source = fmt::format("{:g} bytes per parameter: {:g} weight + {:g} gradient + {:g} fp32 copy + {:g} m "
                                    "and v",
                                    recipe.parameter + recipe.gradient + recipe.optimizer(), recipe.parameter,
                                    recipe.gradient, recipe.master, recipe.moments)};
  for (const int stage : state.stages) {
    const week22::ModelState bytes = week22::model_state(parameters, stage, ranks, recipe);
    const auto s = static_cast<std::size_t>(stage);
    state.kinds[0].bytes[s] = bytes.parameter_bytes;
    state.kinds[1].bytes[s] = bytes.gradient_bytes;
    state.kinds[2].bytes[s] = bytes.optimizer_bytes;
  }
  return state;
}

State by_tool(const std::string& name, double parameters, double largest, int ranks) {
  const bench::ToolRecipe& recipe = bench::find_recipe(name);
  State state{.stages = recipe.stages, .kinds = {}, .source = recipe.source};
  const auto add = [&](const std::string& kind, const bench::ToolRecipe& part) {
    Kind& added = state.kinds.emplace_back(Kind{kind});
    for (const int stage : recipe.stages)
      added.bytes[static_cast<std::size_t>(stage)] = bench::recipe_bytes(part, parameters, stage, ranks, largest);
  };
  for (const bench::RecipeLine& line : recipe.lines) add(line.kind, {.lines = {line}});
  if (!recipe.largest.empty()) add(recipe.largest, {.largest = recipe.largest});
  return state;
}

}  // namespace

std::string memory(const Request& request) {
  const double parameters = request.number("parameters", 1, 1e15);
  const int ranks = request.count("p", 1 << 20);
  const std::string& recipe = request.text("recipe");
  State state = recipe == "bf16" || recipe == "f32" || recipe == "bf16-only"
                    ? by_formula(recipe, parameters, ranks)
                    : by_tool(recipe, parameters, request.number("largest", 1, 1e15), ranks);
  const double activations =
      request.number("token_bytes", 0, 1e12) * request.whole("b", 0, 1 << 20) * request.whole("s", 1, 1 << 24);
  state.kinds.push_back({"activations", {activations, activations, activations, activations}});
  const double gpu = request.number("gpu", 1, 1e15);
  const auto number = [](double value) { return fmt::format("{}", value); };
  return fmt::format(R"({{"source":{},"kinds":{},"stages":{}}})", view::text(state.source),
                     view::list(state.kinds, [](const Kind& kind) { return view::text(kind.name); }),
                     view::list(state.stages, [&](int stage) {
                       std::vector<double> bytes;
                       double total = 0;
                       for (const Kind& kind : state.kinds)
                         total += bytes.emplace_back(kind.bytes[static_cast<std::size_t>(stage)]);
                       return fmt::format(R"({{"stage":{},"bytes":{},"total":{},"fits":{}}})", stage,
                                          view::list(bytes, number), total, total <= gpu);
                     }));
}

}  // namespace lockstep::playground
