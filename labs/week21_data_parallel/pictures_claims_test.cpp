// The course texts' pictures of collectives, played on three ranks, and what overlaps with what: docs/learn/claims.md.
//
//   ./lab test --all -R suite.claims.week21 -V
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <charconv>

#include "common/gpt/model/gpt.hpp"
#include "common/runtime/run.hpp"
#include "common/testing/values.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week21 {
namespace {

/// Letters are powers of two, a = 1, b = 2, c = 4 …, so that a sum says which letters are in it: 73 is "a+d+g".
std::string letters(double sum) {
  std::string text;
  for (int k = 0; k < 18; ++k)
    if (static_cast<int>(sum) >> k & 1)
      text += fmt::format("{}{}", text.empty() ? "" : "+", static_cast<char>('a' + k));
  return text;
}

/// Rank r of three begins with the next `each` letters; what every rank has after `collective`.
std::vector<std::vector<std::string>> played(std::size_t each, void (*collective)(Rank, Slice)) {
  const Outcome outcome =
      run({.ranks = 3}, Program([&](Rank me) {
            Slice data = me.allocate(each, DType::f32, Category::gradient);
            std::vector<float> mine;
            for (std::size_t i = 0; i < each; ++i)
              mine.push_back(static_cast<float>(1 << (static_cast<std::size_t>(me.rank()) * each + i)));
            upload(me, data, mine);
            collective(me, data);
            Values seen;
            testing::append(me, data, seen);
            return seen;
          }));
  std::vector<std::vector<std::string>> all;
  for (const Values& values : outcome.check().values) {
    all.emplace_back();
    for (double value : values) all.back().push_back(letters(value));
  }
  return all;
}

TEST(ClaimsWeek21, ThePictureOfAnAllReduceOnThreeGpus) {
  const auto all = played(3, ring_all_reduce);
  fmt::print("  measured: all-reduce of [a, b, c], [d, e, f], [g, h, i]: [{}] on each; the text has [a+d, b+e, c+f]\n",
             fmt::join(all[0], ", "));
  for (const auto& rank : all) EXPECT_EQ(rank, (std::vector<std::string>{"a+d+g", "b+e+h", "c+f+i"}));
}

TEST(ClaimsWeek21, ThePictureOfAReduceScatterOnThreeGpus) {
  const auto all = played(6, ring_reduce_scatter);
  const std::vector<std::vector<std::string>> complete = {{"a+g+m", "b+h+n"}, {"c+i+o", "d+j+p"}, {"e+k+q", "f+l+r"}};
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const std::vector<std::string> own(all[rank].begin() + static_cast<std::ptrdiff_t>(2 * rank),
                                       all[rank].begin() + static_cast<std::ptrdiff_t>(2 * rank + 2));
    fmt::print("  measured: after a reduce-scatter rank {} holds [{}]\n", rank, fmt::join(own, ", "));
    EXPECT_EQ(own, complete[rank]);
  }
}

/// The layer that a tensor such as "blocks.3.qkv.weight" belongs to; −1 for those outside.
int layer_of(std::string_view name) {
  constexpr std::string_view kBlocks = "blocks.";
  int layer = -1;
  if (name.starts_with(kBlocks)) std::from_chars(name.data() + kBlocks.size(), name.data() + name.size(), layer);
  return layer;
}

TEST(ClaimsWeek21, LayerIMinus1IsComputedWhileLayerISends) {
  const Outcome outcome = run({.ranks = 1, .phantom = true}, Program([&](Rank me) {
                                Gpt gpt(me, gpt_preset("gpt2-124m"), 1);
                                Activations saved = gpt.allocate_activations(me, 1, 64);
                                Batch batch{me.allocate(64, DType::i32, Category::buffer),
                                            me.allocate(64, DType::i32, Category::buffer), 1, 64};
                                gpt.forward(me, batch, saved);
                                Values layers;
                                gpt.backward(me, batch, saved, [&](std::size_t i) {
                                  const int layer = layer_of(gpt.parameters().list[i].name);
                                  if (layer >= 0 && (layers.empty() || layers.back() != layer)) layers.push_back(layer);
                                });
                                return layers;
                              }));
  const Values& layers = outcome.check().values[0];
  fmt::print("  measured: gradients are complete in the order of layers {}\n", fmt::join(layers, ", "));
  ASSERT_EQ(layers.size(), 12u) << "each layer once";
  for (std::size_t i = 0; i < layers.size(); ++i) EXPECT_EQ(layers[i], 11 - static_cast<int>(i));
}

}  // namespace
}  // namespace lockstep::week21
