// The GPT: the order of final gradients, microbatches, sharded optimizer, 16-bit storage, memory by formula.
#include <gtest/gtest.h>

#include "common/gpt/data/model_file.hpp"
#include "common/gpt/model/block.hpp"
#include "common/gpt/model/optimizer.hpp"
#include "common/gpt/model/units.hpp"
#include "common/gpt/tests/model_support.hpp"
#include "common/runtime/ledger/ledger.hpp"
#include "common/support/tests/refusal_testing.hpp"

namespace lockstep {
namespace {

using namespace model_tests;

// The hook, microbatches, optimizer ----------------------------------------------------------------------------------

struct NamedModel {
  const char* name;
  GptConfig config;
};

class Model : public testing::TestWithParam<NamedModel> {
 protected:
  GptConfig config() const { return GetParam().config; }
};

TEST_P(Model, ReadyOnceEachFromLastToFirstAndFinal) {
  std::vector<std::size_t> order;
  std::vector<std::vector<float>> when_ready(gpt_parameter_table(config()).size()), at_end;
  run_one([&](Rank me) {
    Gpt gpt(me, config(), 1);
    Batch batch = formula_batch(me, 2, 8, config().vocabulary);
    Activations saved = gpt.allocate_activations(me, 2, 8);
    Slice loss = me.allocate(1, DType::f32, Category::buffer);
    const std::vector<Batch> microbatches{batch, batch};
    fill(me, loss, 0);
    accumulate_gradients(me, gpt, microbatches, saved, loss, 1, [&](std::size_t i) {
      order.push_back(i);
      when_ready[i] = to_host(me, gpt.parameters().gradient(i));
    });
    for (std::size_t i = 0; i < gpt.parameters().list.size(); ++i)
      at_end.push_back(to_host(me, gpt.parameters().gradient(i)));
    return Values{};
  });
  ASSERT_EQ(order.size(), when_ready.size());
  for (std::size_t k = 0; k < order.size(); ++k) EXPECT_EQ(order[k], order.size() - 1 - k);
  EXPECT_EQ(when_ready, at_end);
}

TEST_P(Model, MicrobatchesOfUnequalSizeAddUpToTheBatch) {
  const auto gradients = [&](const std::vector<std::size_t>& cuts) {
    std::vector<float> result;
    run_one([&](Rank me) {
      Gpt gpt(me, config(), 3);
      Batch whole = formula_batch(me, 5, 8, config().vocabulary, false);
      Slice loss = me.allocate(1, DType::f32, Category::buffer);
      fill(me, loss, 0);
      std::size_t first = 0;
      for (std::size_t sequences : cuts) {
        Batch part{whole.tokens.cut(first * 8, sequences * 8), whole.targets.cut(first * 8, sequences * 8), sequences,
                   8};
        Activations saved = gpt.allocate_activations(me, sequences, 8);
        accumulate_gradients(me, gpt, std::span(&part, 1), saved, loss, factor_of(5 * 8));
        first += sequences;
      }
      result = to_host(me, gpt.parameters().gradients);
      result.push_back(read(me, loss, 0));
      return Values{};
    });
    return result;
  };
  const std::vector<float> whole = gradients({5}), parts = gradients({2, 1, 2});
  const double scale = norm_of(whole);
  std::vector<float> gap(whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) gap[i] = whole[i] - parts[i];
  EXPECT_LT(norm_of(gap), 2e-6 * scale);
}

INSTANTIATE_TEST_SUITE_P(Model, Model,
                         testing::Values(NamedModel{"tied", {2, 2, 16, 13, 8, true}},
                                         NamedModel{"untied", {2, 2, 16, 13, 8, false}},
                                         NamedModel{"llama", llama({2, 4, 16, 13, 8, false}, 2, 20, 500)}),
                         [](const auto& info) { return info.param.name; });

TEST(Optimizer, ShardsTogetherDoWhatOneDoes) {
  const GptConfig config{1, 2, 16, 13, 8};
  const auto after_steps = [&](std::size_t shards) {
    std::vector<float> values;
    run_one([&](Rank me) {
      Gpt gpt(me, config, 3);
      std::vector<Optimizer> optimizers;
      const std::size_t count = gpt.parameters().count();
      for (std::size_t s = 0; s < shards; ++s)
        optimizers.emplace_back(me, gpt.parameters(), AdamW{},
                                Range{s * count / shards, (s + 1) * count / shards - s * count / shards});
      for (int step = 0; step < 2; ++step) {
        random_normal(me, gpt.parameters().gradients, {5, 0, static_cast<std::uint64_t>(step)}, 0, 1);
        for (Optimizer& optimizer : optimizers) optimizer.step(me, 1e-2f);
      }
      values = to_host(me, gpt.parameters().values);
      return Values{};
    });
    return values;
  };
  const std::vector<float> whole = after_steps(1);
  EXPECT_EQ(after_steps(3), whole);
  EXPECT_EQ(after_steps(7), whole);
}

TEST_P(Model, BringsItsTensorsAVisitAtATime) {
  // Binds values and gradients of a model that owns nothing before each piece, and unbinds them after it.
  const GptConfig config = this->config();
  const auto usage_order = gpt_usage_order(config);
  run_one([&](Rank me) {
    const Batch batch = formula_batch(me, 3, 8, config.vocabulary);
    Gpt whole(me, config, 3), lent(me, config, 3, Owns::nothing);
    const Parameters& parameters = whole.parameters();
    Activations saved = whole.allocate_activations(me, 3, 8);
    Slice loss = me.allocate(1, DType::f32, Category::buffer);
    Slice gradients = me.allocate(parameters.count(), DType::f32, Category::gradient);
    accumulate_gradients(me, whole, std::span(&batch, 1), saved, loss, 1.0f / 24);
    fill(me, gradients, 0);
    std::vector<std::size_t> order;
    const BeforePiece before = [&](std::size_t piece) {
      order.push_back(piece);
      for (std::size_t i = 0; i < parameters.list.size(); ++i) lent.bind(i, {}, {});
      for (std::size_t i : usage_order[piece])
        lent.bind(i, parameters.value(i), gradients.cut(parameters.list[i].offset, parameters.list[i].size));
    };
    lent.forward(me, batch, saved, before);
    cross_entropy(me, loss, saved.logits, batch.targets, 1.0f / 24);
    lent.backward(me, batch, saved, {}, before);
    EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 2, 3, 3, 2, 1, 0}));
    EXPECT_EQ(to_host(me, gradients), to_host(me, parameters.gradients));
    return Values{};
  });
}

TEST(Units, ShardsBeginAsTheWholeModelDoes) {
  const GptConfig config{2, 2, 16, 13, 8};
  const std::vector<Parameter> table = gpt_parameter_table(config);
  run_one([&](Rank me) {
    const std::vector<float> whole = to_host(me, Gpt(me, config, 3).parameters().values);
    for (const Unit& unit : {make_unit(table, 0, 2), make_unit(table, 2, 12), make_unit(table, 14, table.size() - 14)})
      for (int rank = 0; rank < 5; ++rank) {
        const ChunkRange shard = unit.shard(rank, 5);
        Slice values = me.allocate(shard.size, DType::f32, Category::parameter);
        for (const TensorPart& part : tensor_parts(table, unit, shard))
          initialise_part(me, config, table[part.tensor], part.tensor, part.first, values.cut(part.offset, part.size),
                          3);
        const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(unit.offset + shard.offset);
        EXPECT_EQ(to_host(me, values), std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(shard.size)));
      }
    return Values{};
  });
}

// 16 bits, memory, training -------------------------------------------------------------------------------------------

class Storage : public testing::TestWithParam<DType> {};

TEST_P(Storage, LearnsItsBatchByHeartAndHoldsWhatTheFormulaSays) {
  GptConfig config{2, 2, 32, 29, 16};
  config.storage = GetParam();
  Memory memory;
  const Values losses = run_one([&](Rank me) {
    Gpt gpt(me, config, 7);
    Batch batch = formula_batch(me, 4, 16, config.vocabulary, false);
    Activations saved = gpt.allocate_activations(me, 4, 16);
    Optimizer optimizer(me, gpt.parameters(), {});
    StepScalars scalars = allocate_step_scalars(me);
    Values seen;
    for (int step = 0; step < 60; ++step) {
      serial_step(me, gpt, optimizer, std::span(&batch, 1), saved, scalars, {.learning_rate = 1e-2f});
      seen.push_back(read(me, scalars.loss, 0));
    }
    memory = ledger_of(me).memory;
    return seen;
  });
  EXPECT_NEAR(losses.front(), std::log(29.0), 0.3);  // an untrained model: ln V
  EXPECT_LT(losses.back(), 0.5);
  const std::size_t element = bytes_of(config.storage), count = config.parameters();
  EXPECT_EQ(memory.live_of(Category::parameter), element * count);
  EXPECT_EQ(memory.live_of(Category::gradient), element * count);
  EXPECT_EQ(memory.live_of(Category::optimizer), (element == 4 ? 8 : 12) * count);  // 16 bytes per parameter either way
  EXPECT_EQ(memory.live_of(Category::activation), activation_bytes(config, 4, 16));
}

INSTANTIATE_TEST_SUITE_P(Model, Storage, testing::Values(DType::f32, DType::bf16, DType::f16),
                         [](const auto& info) { return std::string(to_string(info.param)); });

// Both kinds compute the same function. Gradients differ by the rounding of probabilities, and memory by B·h·T·(T·e −
// 4).
TEST(Attention, MaterialisedIsTheSameModel) {
  for (const auto& [dtype, block] : {std::pair{DType::f32, GptConfig{2, 2, 32, 29, 16}},
                                     {DType::bf16, GptConfig{2, 2, 32, 29, 16}},
                                     {DType::f32, llama({2, 4, 32, 29, 16}, 2, 40, 500)}}) {
    GptConfig config = block;
    config.storage = dtype;
    std::vector<float> gradients[2];
    for (AttentionKind kind : {AttentionKind::flash, AttentionKind::materialised}) {
      config.attention = kind;
      run_one([&](Rank me) {
        Gpt gpt(me, config, 7);
        Batch batch = formula_batch(me, 4, 16, config.vocabulary);
        Activations saved = gpt.allocate_activations(me, 4, 16);
        EXPECT_EQ(ledger_of(me).memory.live_of(Category::activation), activation_bytes(config, 4, 16));
        Activations part = gpt.first_sequences(saved, 3);
        Batch three{batch.tokens.cut(0, 48), batch.targets.cut(0, 48), 3, 16};
        Slice loss = me.allocate(1, DType::f32, Category::buffer);
        fill(me, loss, 0);
        accumulate_gradients(me, gpt, std::span(&three, 1), part, loss, factor_of(47));
        gradients[static_cast<int>(kind)] = to_host(me, gpt.parameters().gradients);
        return Values{};
      });
    }
    std::vector<float> gap = gradients[0];
    for (std::size_t i = 0; i < gap.size(); ++i) gap[i] -= gradients[1][i];
    EXPECT_GT(norm_of(gap), 0) << "nothing else was computed";
    EXPECT_LT(norm_of(gap), (dtype == DType::f32 ? 1e-6 : 0.02) * norm_of(gradients[0])) << to_string(dtype);
  }
}

TEST(Phantom, TrillionParameterShapesArePricedWithoutMemory) {
  const GptConfig config = gpt_preset("gpt-1t");
  EXPECT_NEAR(config.parameters(), 1e12, 0.02e12);
  Memory memory;
  double seconds = 0;
  run_one(
      [&](Rank me) {
        Gpt gpt(me, config, 1);
        Batch batch{me.allocate(2048, DType::i32, Category::buffer), me.allocate(2048, DType::i32, Category::buffer), 1,
                    2048};
        Activations saved = gpt.allocate_activations(me, 1, 2048);
        Optimizer optimizer(me, gpt.parameters(), {});
        StepScalars scalars = allocate_step_scalars(me);
        const double begin = me.now();
        serial_step(me, gpt, optimizer, std::span(&batch, 1), saved, scalars, {});
        seconds = me.now() - begin;
        EXPECT_EQ(read(me, scalars.loss, 42), 42);
        memory = ledger_of(me).memory;
        return Values{};
      },
      true);
  EXPECT_GT(seconds, 0);
  EXPECT_EQ(memory.live_of(Category::parameter), 4 * config.parameters());
  EXPECT_EQ(memory.peak_of(Category::activation), activation_bytes(config, 1, 2048));
}

TEST(ModelFile, SaysWhatItsTextSays) {
  for (const char* name : {"tiny", "gpt2-124m", "tiny-llama", "llama3-405b"}) {
    const GptConfig config = gpt_preset(name), again = parse_model(model_text(config), name);
    EXPECT_EQ(model_text(again), model_text(config)) << name;
    EXPECT_EQ(again.parameters(), config.parameters()) << name;
    EXPECT_EQ(again.architecture.rope_base, config.architecture.rope_base) << name;
    EXPECT_EQ(again.architecture.key_value_heads(again.heads), config.architecture.key_value_heads(config.heads));
    EXPECT_EQ(again.tied_head, config.tied_head) << name;
  }
}

TEST(ModelFile, RefusesWhatNoOperationDoes) {
  const std::string llama =
      R"("model_type": "llama", "num_hidden_layers": 1, "hidden_size": 8, "intermediate_size": 12,)"
      R"( "num_attention_heads": 2, "vocab_size": 9)";
  const auto answer = [&](const std::string& more) {
    return refusal([&] { parse_model("{" + llama + more + "}", "m.json"); });
  };
  EXPECT_EQ(answer(""), "");
  EXPECT_EQ(answer(R"(, "rope_scaling": null, "hidden_act": "silu", "head_dim": 4)"), "");
  for (const auto& [more, word] : {std::pair{R"(, "rope_scaling": {"factor": 8})", "rope_scaling"},
                                   {R"(, "rms_norm_eps": 1e-6)", "rms_norm_eps"},
                                   {R"(, "hidden_act": "relu")", "hidden_act"},
                                   {R"(, "attention_bias": true)", "attention_bias"},
                                   {R"(, "head_dim": 8)", "head_dim"},
                                   {R"(, "num_key_value_heads": 3)", "key-value heads"},
                                   {R"(, "num_key_value_heads": 0)", "num_key_value_heads"},
                                   {R"(, "rope_theta": 1e39)", "base of rotary positions"},
                                   {R"(, "rope_theta": "x")", "m.json"}})
    EXPECT_NE(answer(more).find(word), std::string::npos) << more << ": " << answer(more);
  EXPECT_THROW(parse_model("{}", "m.json"), Error);
  EXPECT_THROW(parse_model(R"({"model_type": "bert"})", "m.json"), Error);
}

/// The members of mistralai/Mixtral-8x7B-v0.1's config.json that say anything.
TEST(ModelFile, ReadsAMixture) {
  const std::string text =
      R"({"model_type": "mixtral", "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336,)"
      R"( "max_position_embeddings": 32768, "num_attention_heads": 32, "num_experts_per_tok": 2,)"
      R"( "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 8, "rms_norm_eps": 1e-05,)"
      R"( "rope_theta": 1000000.0, "router_aux_loss_coef": 0.02, "sliding_window": null, "vocab_size": 32000})";
  const GptConfig model = parse_model(text, "m.json"), preset = gpt_preset("mixtral-8x7b");
  EXPECT_EQ(model.architecture, preset.architecture);
  EXPECT_EQ(model.parameters(), preset.parameters());
  EXPECT_EQ(model.context, preset.context);
  EXPECT_NE(refusal([&] { model_text(model); }), "") << "a Llama's file would leave out the experts";
}

TEST(Config, CountsMixtures) {
  const GptConfig small = gpt_preset("mixtral-8x7b"), large = gpt_preset("mixtral-8x22b");
  EXPECT_EQ(small.parameters(), 46702792704u);  // arXiv 2401.04088: 47 billion, 13 of which a token meets
  EXPECT_NEAR(static_cast<double>(small.active_parameters()), 12.9e9, 0.05e9);
  EXPECT_NEAR(static_cast<double>(large.parameters()), 141e9, 0.5e9);  // mistral.ai/news/mixtral-8x22b: 141 and 39
  EXPECT_NEAR(static_cast<double>(large.active_parameters()), 39e9, 0.5e9);
  EXPECT_EQ(gpt_preset("llama3-8b").active_parameters(), gpt_preset("llama3-8b").parameters());
  for (const int experts : {1, 2, 8})
    for (const int tp : {1, 2}) {
      GptConfig part = small;
      part.tensor.ranks = tp, part.expert_ranks = experts;
      std::size_t sum = 0;
      for (const Parameter& tensor : gpt_parameter_table(part)) sum += tensor.size;
      EXPECT_EQ(sum, part.parameters()) << experts << " ranks share the experts, " << tp << " the other layers";
    }
  GptConfig fewer = small;
  fewer.architecture.top_k = 9;
  EXPECT_NE(refusal([&] { fewer.check(); }), "") << "a token meets more experts than there are";
  fewer.architecture.experts = std::size_t{1} << 40;
  EXPECT_NE(refusal([&] { fewer.check(); }).find("experts is too large"), std::string::npos) << "a product overflows";
  fewer = small;
  fewer.expert_ranks = 16;
  EXPECT_NE(refusal([&] { fewer.check(); }), "") << "some ranks have no expert";
}

/// The layers of one rank know no experts: a program without those of 23.7 says so.
TEST(Config, MixturesNeedTheirLayers) {
  GptConfig config = gpt_preset("tiny");
  config.architecture.experts = 4;
  const Outcome outcome = run({.phantom = true}, Program([&](Rank me) -> Values {
                                Gpt gpt(me, config, 1);
                                Activations saved = gpt.allocate_activations(me, 1, 8);
                                gpt.forward_block(me, 0, saved);
                                return {};
                              }));
  EXPECT_NE(refusal([&] { outcome.check(); }).find("tiny-moe"), std::string::npos);
}

TEST(Config, CountsAndRefuses) {
  EXPECT_EQ(gpt_preset("gpt2-124m").parameters(), 124439808u);  // as published
  EXPECT_NEAR(gpt_preset("gpt3-175b").parameters(), 175e9, 1e9);
  EXPECT_EQ(gpt_preset("llama3-8b").parameters(), 8030261248u);  // arXiv 2407.21783: 8.03, 70.55 and 405.85 billion
  EXPECT_EQ(gpt_preset("llama3-70b").parameters(), 70553706496u);
  EXPECT_EQ(gpt_preset("llama3-405b").parameters(), 405853388800u);
  const auto refused = [](GptConfig config) { return !refusal([&] { config.check(); }).empty(); };
  EXPECT_TRUE(refused({2, 3, 64, 256, 64}));  // heads does not divide d_model
  EXPECT_TRUE(refused({0, 2, 64, 256, 64}));
  EXPECT_TRUE(refused({2, 2, 64, 0, 64}));
  EXPECT_TRUE(refused(llama({2, 4, 64, 256, 64}, 3, 64, 500)));  // the number of key-value heads does not divide heads
  EXPECT_TRUE(refused(llama({2, 4, 20, 256, 64}, 2, 64, 500)));  // heads of 5 channels cannot be paired
  EXPECT_TRUE(refused(llama({2, 4, 64, 256, 64}, 2, 64, 0)));
  GptConfig shared = llama({2, 4, 64, 256, 64}, 2, 64, 500);
  shared.tensor.ranks = 2;
  EXPECT_FALSE(refused(shared));
  shared.tensor.ranks = 4;
  EXPECT_TRUE(refused(shared));  // fewer key-value heads than ranks
  EXPECT_TRUE(refused({std::size_t{1} << 40, 1, 1 << 20, 256, 64}));
  for (const std::string& name : gpt_preset_names()) EXPECT_FALSE(refused(gpt_preset(name))) << name;
  EXPECT_THROW(gpt_preset("gtp2"), Error);
}

/// A rank's columns of a matrix are drawn row by row, but not in a phantom run: a plan of 175 billion parameters would
/// record 20 million operations.
TEST(Phantom, DrawsEachTensorOnce) {
  GptConfig config{2, 4, 64, 256, 64};
  config.tensor.ranks = 4;
  std::size_t weights = 0;
  for (const Parameter& tensor : gpt_parameter_table(config)) weights += tensor.name.ends_with(".weight");
  for (const bool phantom : {true, false}) {
    const Outcome outcome = run({.phantom = phantom, .trace = true},
                                Program([&](Rank me) -> Values { return Gpt(me, config, 7), Values{}; }))
                                .check();
    std::size_t drawn = 0;
    for (const TraceEvent& event : outcome.trace.events) drawn += event.name == "random_normal" ? 1 : 0;
    if (phantom)
      EXPECT_LE(drawn, weights);
    else
      EXPECT_GT(drawn, 2 * config.d_model);
  }
}

/// A mistake in a lab's call is reported at the lab's line.
TEST(Place, OfAWrongCallIsTheCallers) {
  const BlockShape shape{.sequences = 1, .length = 2, .heads = 1, .d_model = 2};
  const std::vector<void (*)(Rank, Slice, Slice, const BlockShape&)> calls{
      [](Rank me, Slice x, Slice bad, const BlockShape&) { linear(me, x, x, bad, {}, 2); },
      [](Rank me, Slice x, Slice bad, const BlockShape&) { linear_backward_input(me, x, x, bad, 2); },
      [](Rank me, Slice x, Slice bad, const BlockShape&) { linear_gelu(me, x, x, x, bad, {}, 2); },
      [](Rank me, Slice x, Slice bad, const BlockShape&) { linear_gelu_backward_input(me, x, x, bad, x, 2); },
      [](Rank me, Slice x, Slice bad, const BlockShape&) { linear_backward_weight(me, bad, {}, x, x, 2); },
      [](Rank me, Slice x, Slice bad, const BlockShape&) { linear_backward_weight(me, x, bad, x, x, 2); },
      [](Rank me, Slice x, Slice bad, const BlockShape& of) { block_norm(me, of, x, x, x, bad, bad); },
      [](Rank me, Slice x, Slice bad, const BlockShape& of) {
        block_norm_backward(me, of, x, bad, bad, x, x, bad, x, Into::accumulate);
      },
      [](Rank me, Slice x, Slice bad, const BlockShape& of) {
        BlockActivations saved{.qkv = bad, .attention = x, .attention_statistics = x};
        block_attention(me, of, saved);
      },
      [](Rank me, Slice x, Slice bad, const BlockShape& of) {
        block_attention_backward(me, of, bad, x, {.qkv = x, .attention = x, .attention_statistics = x});
      },
      [](Rank me, Slice x, Slice bad, const BlockShape& of) {
        BlockActivations saved{.up = x, .gelu = bad};
        block_activation(me, of, saved);
      },
      [](Rank me, Slice, Slice bad, const BlockShape& of) {
        (void)block_activation_backward(me, of, me.allocate(16, DType::f32, Category::buffer), {.up = bad});
      },
      [](Rank me, Slice x, Slice bad, const BlockShape&) { clip(me, bad, x, x, 1); },
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Outcome outcome = run(RunOptions{.ranks = 1}, [&](Rank me) {
      calls[i](me, me.allocate(4, DType::f32, Category::buffer), me.allocate(3, DType::f32, Category::buffer), shape);
    });
    EXPECT_EQ(outcome.verdict, Verdict::usage) << i;
    EXPECT_NE(outcome.message.find("USAGE at model_test.cpp:"), std::string::npos) << i << ": " << outcome.message;
  }
  // 2 rows, 3 inputs, 1 output, with dy and x exchanged: the weight's gradient has as many elements either way.
  const Outcome exchanged = run(RunOptions{.ranks = 1}, [](Rank me) {
    const auto slice = [&](std::size_t count) { return me.allocate(count, DType::f32, Category::buffer); };
    linear_backward_weight(me, slice(3), slice(1), slice(6), slice(2), 2);
  });
  EXPECT_NE(exchanged.message.find("dbias has 1 element, and a row of dy has 3: dy comes before x"), std::string::npos)
      << exchanged.message;
}

}  // namespace
}  // namespace lockstep
