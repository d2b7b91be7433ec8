// For the tests of 22.6: the models that its cases stand for.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "common/testing/cases.hpp"
#include "common/testing/drawn.hpp"
#include "labs/week22_zero/checkpointing.hpp"

namespace lockstep::week22::checkpointing {

inline constexpr std::size_t kSequences = 3, kLength = 8;

struct Shape {
  std::size_t layers;
  AttentionKind kind;
  DType dtype;
  std::string words() const {
    return fmt::format("{} block{}, {} attention, {}", layers, layers == 1 ? "" : "s",
                       kind == AttentionKind::flash ? "flash" : "materialised", to_string(dtype));
  }
};
/// The shapes that a case's size stands for.
inline const std::vector<Shape> kShapes = {{1, AttentionKind::materialised, DType::f32},
                                           {3, AttentionKind::materialised, DType::f32},
                                           {3, AttentionKind::flash, DType::f32},
                                           {4, AttentionKind::materialised, DType::bf16},
                                           {4, AttentionKind::flash, DType::bf16}};
/// With --seed the last has another number of blocks.
inline Shape shape_of(const testing::Case& c) {
  Shape shape = kShapes[c.size];
  if (c.size + 1 == kShapes.size()) shape.layers += testing::drawn({22, 11}, 4);
  return shape;
}
inline const testing::CasePlan kPlan{.ranks = {1}, .sizes = testing::sizes_of({0, 1, 2, 3, 4}), .which = "shape"};

inline GptConfig config_of(const Shape& shape) {
  GptConfig config{.layers = shape.layers, .heads = 2, .d_model = 16, .vocabulary = 13, .context = kLength};
  config.storage = shape.dtype;
  config.attention = shape.kind;
  return config;
}

}  // namespace lockstep::week22::checkpointing
