#include "bench/programs/calibrate_operations.hpp"

#include "common/arithmetic.hpp"

namespace lockstep::bench {

std::vector<NamedAct> calibrated_operations(Rank me) {
  constexpr std::size_t kRows = 256, kColumns = 192, kVocabulary = 256;
  const AttentionShape shape{.batch = 4, .positions = 64, .heads = 6, .head_size = 32};
  const AttentionShape longer{.batch = 1, .positions = 256, .heads = 6, .head_size = 32};  // of as many tokens
  std::uint64_t tensor = 0;
  const auto some = [&](std::size_t elements) {  // with values as in training, so that branches vary
    Slice slice = me.allocate(elements, DType::f32, Category::buffer);
    random_normal(me, slice, {.seed = 1, .tensor = ++tensor}, 0, 1);
    return slice;
  };
  const Slice x = some(kRows * kColumns), y = some(x.size()), dx = some(x.size()), dy = some(x.size());
  const Slice weight = some(kColumns), bias = some(kColumns), dweight = some(kColumns), dbias = some(kColumns);
  const Slice of_rows = some(2 * kRows), qkv = some(3 * x.size()), dqkv = some(3 * x.size());
  const Slice of_heads = some(shape.batch * shape.heads * shape.positions), loss = some(1);
  const Slice logits = some(kRows * kVocabulary), targets = me.allocate(kRows, DType::i32, Category::buffer);
  fill(me, targets, 3);
  const Slice gradient = some(x.size()), m = some(x.size()), v = some(x.size());
  fill(me, v, 1);
  layer_norm(me, y, of_rows, x, weight, bias);
  return {{"gelu", [=] { gelu(me, y, x); }},
          {"gelu_backward", [=] { gelu_backward(me, dx, dy, x); }},
          {"layer_norm", [=] { layer_norm(me, y, of_rows, x, weight, bias); }},
          {"layer_norm_backward",
           [=] { layer_norm_backward(me, dx, dweight, dbias, dy, x, weight, of_rows, Into::overwrite); }},
          {"attention", [=] { attention(me, y, of_heads, qkv, shape); }},
          {"attention_backward", [=] { attention_backward(me, dqkv, dy, y, qkv, of_heads, shape); }},
          {"attention_256", [=] { attention(me, y, of_heads, qkv, longer); }},
          {"attention_backward_256", [=] { attention_backward(me, dqkv, dy, y, qkv, of_heads, longer); }},
          {"cross_entropy", [=] { cross_entropy(me, loss, logits, targets, 1e-3f); }},
          {"adamw", [=] { adamw(me, x, x, m, v, gradient, {}); }}};
}

}  // namespace lockstep::bench
