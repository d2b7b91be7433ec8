// For the tests of 22.2 to 22.4: optimizer steps with and without each of gradient_factor, skip and skipped, against
// one AdamW on all parameters.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <optional>
#include <string>

#include "common/arithmetic.hpp"
#include "labs/week22_zero/zero_gpt_testing.hpp"
#include "labs/week22_zero/zero_script_testing.hpp"

namespace lockstep::week22 {

/// Arguments of one step; those without a value are left out.
struct StepArguments {
  std::optional<float> gradient_factor, skip, skipped;

  std::string words() const {
    std::string text;
    const auto say = [&text](const char* name, const std::optional<float>& value) {
      if (value) text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, *value);
    };
    say("gradient_factor", gradient_factor);
    say("skip", skip);
    say("skipped", skipped);
    return text.empty() ? "no optional argument" : text;
  }
};

/// Each of the three absent, present and changing. `skipped` counts steps of before, so it stays below the step's
/// number.
inline const std::vector<StepArguments> kArgumentsOfSteps = {
    {},
    {.gradient_factor = 1.0f},
    {.gradient_factor = 0.5f},
    {.skip = 1.0f},
    {.skip = 0.0f},
    {.skipped = 1.0f},
    {.gradient_factor = 0.25f, .skip = 0.0f, .skipped = 1.0f},
    {.gradient_factor = 2.0f, .skip = 1.0f, .skipped = 1.0f},
    {.gradient_factor = 0.125f, .skipped = 2.0f},
    {.skip = 0.0f, .skipped = 2.0f},
    {},
};

/// The gradient of one element in one step: no two are equal, positive and negative.
inline float gradient_of(std::size_t step, std::size_t element) {
  const auto mixed = static_cast<unsigned>(element * 2654435761u + step * 40503u + 977u);
  return static_cast<float>((mixed >> 8) % 20011) / 9973.0f - 1.0f;
}

using Step = std::function<void(Slice gradient_factor, Slice skip, Slice skipped)>;

/// Takes kArgumentsOfSteps: before each, element e of gradients[i] becomes gradient_of(step, first[i] + e). Returns
/// values() after each.
inline Values take_steps(Rank me, const std::vector<Slice>& gradients, const std::vector<std::size_t>& first,
                         const Step& step, const std::function<std::vector<float>()>& values) {
  const auto scalar = [&me] { return me.allocate(1, DType::f32, Category::buffer); };
  const Slice factor = scalar(), skip = scalar(), skipped = scalar();
  const auto given = [me](const Slice& slice, const std::optional<float>& value) {
    if (!value) return Slice();
    fill(me, slice, *value);
    return slice;
  };
  Values seen;
  for (std::size_t s = 0; s < kArgumentsOfSteps.size(); ++s) {
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      std::vector<float> of_step;
      for (std::size_t e = 0; e < gradients[i].size(); ++e) of_step.push_back(gradient_of(s, first[i] + e));
      upload(me, gradients[i], of_step);
    }
    const StepArguments& arguments = kArgumentsOfSteps[s];
    step(given(factor, arguments.gradient_factor), given(skip, arguments.skip), given(skipped, arguments.skipped));
    for (float value : values()) seen.push_back(value);
  }
  return seen;
}

/// The arguments that reach AdamW.
struct Reaching {
  bool gradient_factor = true, skip = true, skipped = true;
};

/// The same of one AdamW on all parameters of the scripted table, whose values begin as 1, 2, 3, …
inline Values all_values_after(std::size_t tensors, const Reaching& reaching) {
  return run({.ranks = 1}, Program([&](Rank me) {
               Parameters all = scripted_values(me, scripted_table(tensors));
               all.gradients = me.allocate(all.values.size(), DType::f32, Category::gradient);
               Optimizer optimizer(me, all, kAdamW);
               return take_steps(
                   me, {all.gradients}, {0},
                   [&](const Slice& factor, const Slice& skip, const Slice& skipped) {
                     optimizer.step(me, kRate, reaching.gradient_factor ? factor : Slice(),
                                    reaching.skip ? skip : Slice(), reaching.skipped ? skipped : Slice());
                   },
                   [&] { return to_host(me, all.values); });
             }))
      .check()
      .values[0];
}

/// The first value after a step that is not AdamW's, of `count` in all that are `element(i)` of the flat slices; and
/// its likely cause, if an argument did not reach AdamW.
inline std::string wrong_steps(const Values& seen, int rank, std::size_t tensors, std::size_t count,
                               const std::function<std::size_t(std::size_t)>& element) {
  const Values right = all_values_after(tensors, {});
  const std::size_t all = right.size() / kArgumentsOfSteps.size();
  for (std::size_t s = 0; s < kArgumentsOfSteps.size(); ++s)
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = s * all + element(i);
      const double value = seen.at(s * count + i);
      if (value == right[at]) continue;
      std::string cause = "Does every optimizer get all three, and every rank the new values?";
      if (value == all_values_after(tensors, {.gradient_factor = false})[at])
        cause = "It is what a step without gradient_factor gives: AdamW did not get it.";
      if (value == all_values_after(tensors, {.skip = false})[at])
        cause = "It is what a step without skip gives: AdamW did not get it.";
      if (value == all_values_after(tensors, {.skipped = false})[at])
        cause =
            "It is what a step without skipped gives: AdamW did not get it, and its bias correction counts steps "
            "that were skipped.";
      return fmt::format("rank {}, after step {} ({}): element {} is {:.9g}, expected {:.9g}. {}", rank, s + 1,
                         kArgumentsOfSteps[s].words(), element(i), value, right[at], cause);
    }
  return "";
}

}  // namespace lockstep::week22
