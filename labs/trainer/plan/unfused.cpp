#include "labs/trainer/plan/unfused.hpp"

#include <map>

#include "common/error.hpp"
#include "common/support/text/nearest.hpp"

namespace lockstep::plan {

namespace {

constexpr bool kSharded = true;

// Per token and channel, 16 bits are 2 bytes, and the MLP is 4 channels wide.
constexpr Pass kGelu{8, kSharded};           // read again what the product wrote; ours is in the product's epilogue
constexpr Pass kGeluBackward{16, kSharded};  // likewise: reads and writes the gradient that a product wrote
constexpr Pass kJoin{12, kSharded};          // gradients of q, k and v are copied into one
// A second pass for the gradient of the norm's weights (4), and one to add to the residual's gradient (6, ours is 2).
constexpr Pass kNormBackward{8};

// NVIDIA/Megatron-LM and bigscience-workshop/Megatron-DeepSpeed, megatron/model/transformer.py and mpu/layers.py:
// TorchScript fuses bias with GELU, and bias with dropout and addition, but into no product.
const Unfused kMegatron{
    {{12, kSharded},  // the bias of q, k and v: F.linear of three dimensions adds it to the product
     {4, kSharded},   // context_layer.permute(…).contiguous()
     kGelu},
    {{6},
     {6},            // of two dropouts: a gradient read and written, and a mask of a byte, written and read
     {4, kSharded},  // of the copy
     kGeluBackward,
     kJoin,
     kNormBackward,
     kNormBackward},
    48};  // mpu/cross_entropy.py: cast, max, subtract, exp, sum, divide; backward multiply, cast: 52 bytes, ours are 4

// mosaicml/llm-foundry, llmfoundry/models/layers: blocks.py, ffn.py, norm.py (LPLayerNorm); the loss is one kernel.
const Unfused kEager{{kGelu}, {kGeluBackward, kJoin, kNormBackward, kNormBackward}};

// PyTorch 2.11, bench/programs/pytorch_step.py: autocast's norms and residual are in 32 bits, so are gradients there.
// log_softmax stays in 16 bits, nll_loss does not (ATen/autocast_mode.h, native/LossNLL.cpp): 26 bytes, ours are 4.
constexpr Pass kNorm32{4}, kAdd32{4}, kCast{6}, kNorm32Backward{24};
const Unfused kAutocast{{kNorm32, kCast, kAdd32, kNorm32, kCast, kGelu, kAdd32},
                        {kCast, kGeluBackward, kCast, kNorm32Backward, kCast, kJoin, kCast, kNorm32Backward},
                        22};

// Llama in PyTorch without torch.compile, in 16 bits but for norms and rotations. A norm casts to 32 bits, squares,
// sums, multiplies, casts back and weights: 36 bytes, ours are 4. Its backward: the weights and their gradient 12, a
// cast 6, the product's two factors 24, the mean 4, the square 28, the sum of both ways 12, a cast 6, into the
// residual's gradient 6; ours are 8. SiLU and its product are two operations: 10 bytes per channel of the MLP, ours are
// 6; backward 18 and 10.
Unfused llama(const GptConfig& config, double rotation, double logit_bytes) {
  const auto share = [](std::size_t a, std::size_t b) { return static_cast<double>(a) / static_cast<double>(b); };
  const double mlp = share(config.mlp_width(), config.d_model);
  const double kv = share(config.architecture.key_value_heads(config.heads), config.heads);
  const Pass rotate{rotation * (1 + kv), kSharded};      // q and k
  const Pass repeat{kv < 1 ? 4 + 4 * kv : 0, kSharded};  // k and v are copied for each head; backward, summed again
  constexpr Pass kRmsNorm{32}, kRmsNormBackward{90};
  constexpr Pass kInput{12},
      kMlpInput{6};  // sums of the gradients that q, k and v, and gate and up, have for their input
  return {{kRmsNorm, rotate, repeat, kRmsNorm, {4 * mlp, kSharded}},
          {{8 * mlp, kSharded}, kMlpInput, kRmsNormBackward, repeat, rotate, kInput, kRmsNormBackward},
          logit_bytes};
}

}  // namespace

Unfused unfused(const std::string& software, const GptConfig& config) {
  static const std::map<std::string, Unfused (*)(const GptConfig&)> all{
      {"autocast", [](const GptConfig&) { return kAutocast; }},
      {"eager", [](const GptConfig&) { return kEager; }},
      // foundation-model-stack at ec70f500, fms/models/llama.py and fms/modules: a rotation writes its products with
      // 2 × 2 matrices and sums them, 36 bytes each way, ours are 4; the loss is in 16 bits, 12 bytes, ours are 4.
      {"fms", [](const GptConfig& config) { return llama(config, 32, 8); }},
      {"megatron", [](const GptConfig&) { return kMegatron; }},
      // pytorch/torchtitan at 0413364, torchtitan/models: complex products, 20 bytes; the loss is in 32 bits, 36.
      {"torchtitan", [](const GptConfig& config) { return llama(config, 16, 32); }},
      // The same at 9dec370 with --training.compile: its blocks are compiled, and the loss is not (train.py, line 137).
      {"torchtitan-compiled", [](const GptConfig&) {
         return Unfused{{}, {}, 32};
       }}};
  if (const auto known = all.find(software); known != all.end()) return known->second(config);
  std::vector<std::string> names;
  for (const auto& [name, list] : all) names.push_back(name);
  throw Error(Verdict::usage, unknown_name("software", software, names));
}

void add_unfused(const Machine& machine, const Unfused& software, const GptConfig& config, double rows,
                 Pieces& pieces) {
  const double tp = config.tensor.ranks, shared = config.tensor.sequence_parallel ? tp : 1;
  const auto seconds = [&](const std::vector<Pass>& passes) {
    double sum = 0;
    for (const Pass& pass : passes) {
      if (pass.bytes == 0) continue;
      const double elements = rows * static_cast<double>(config.d_model) / (pass.sharded ? tp : shared);
      sum += machine.seconds({.name = "unfused", .bytes = pass.bytes * elements});
    }
    return sum;
  };
  const double forward = seconds(software.forward), backward = seconds(software.backward);
  pieces.block.seconds += forward, pieces.rebuilt += forward;
  pieces.block_back.seconds += backward, pieces.block_inputs += backward;
  const double logits = rows * static_cast<double>(config.vocabulary) / tp;
  if (software.logit_bytes > 0)
    pieces.head.seconds += machine.seconds({.name = "unfused", .bytes = software.logit_bytes * logits});
}

}  // namespace lockstep::plan
