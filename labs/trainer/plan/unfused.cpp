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

}  // namespace

const Unfused& unfused(const std::string& software) {
  static const std::map<std::string, const Unfused*> all{
      {"autocast", &kAutocast}, {"eager", &kEager}, {"megatron", &kMegatron}};
  if (const auto known = all.find(software); known != all.end()) return *known->second;
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
