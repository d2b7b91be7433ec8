#include "tools/plan/software.hpp"

#include <fmt/format.h>

#include <cmath>
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

// A mixture in NVIDIA/Megatron-LM in spring 2025, megatron/core/transformer/moe/moe_utils.py, permute and unpermute
// without --moe-permute-fusion. Per token and expert it meets: results are multiplied by the router's weights (4) and
// added to zeros (6: read, and the sum read and written); ours are read once (2). Backward: gradients are taken by
// expert (4), multiplied by weights (4), and by results, and summed (8); ours are 6. index_select's are added to zeros
// (6), ours summed (2).
Unfused mixture(const GptConfig& config) {
  if (config.architecture.experts == 0) throw Error(Verdict::usage, "megatron-core: its passes are a mixture's");
  const auto met = static_cast<double>(config.architecture.top_k);
  return {{{8 * met, kSharded}}, {{14 * met, kSharded}}, 0};
}

}  // namespace

Unfused unfused(const std::string& software, const GptConfig& config) {
  static const std::map<std::string, Unfused (*)(const GptConfig&)> all{
      {"", [](const GptConfig&) { return Unfused(); }},
      {"autocast", [](const GptConfig&) { return kAutocast; }},
      {"eager", [](const GptConfig&) { return kEager; }},
      // foundation-model-stack at ec70f500, fms/models/llama.py and fms/modules: a rotation writes its products with
      // 2 × 2 matrices and sums them, 36 bytes each way, ours are 4; the loss is in 16 bits, 12 bytes, ours are 4.
      {"fms", [](const GptConfig& config) { return llama(config, 32, 8); }},
      {"megatron", [](const GptConfig&) { return kMegatron; }},
      {"megatron-core", mixture},
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

double update_bytes(const std::string& software) {
  // PyTorch's AdamW and Composer's, one operation after another (torch/optim/adamw.py, _multi_tensor_adamw, of 2.1 to
  // 2.6; composer/optim/decoupled_weight_decay.py): decay 8 bytes, m 12, v 8 and 12, root 8, its correction 8, epsilon
  // 8, parameters 16; ours are 28. torchtitan's was not fused before 2025, fms-fsdp's is not.
  const bool unfused = software == "eager" || software == "fms" || software.starts_with("torchtitan");
  return unfused ? 80 - 28 : 0;
}

Unfused casts(const std::string& scaling, bool gathered, const GptConfig& config) {
  check_known("scaling of fp8", scaling,
              std::vector<std::string>{"tensorwise", "rowwise", "transformer-engine", "delayed"});
  const auto share = [](std::size_t a, std::size_t b) { return static_cast<double>(a) / static_cast<double>(b); };
  const double met = config.architecture.experts > 0 ? static_cast<double>(config.architecture.top_k) : 1;
  const double mlp = met * share(config.mlp_width(), config.d_model),
               up = met * share(config.up_width(), config.d_model);
  const double qkv = share(config.qkv_width(), config.d_model);
  // Per element of a product's operand: the largest of all is read (2 bytes); it is read again, and written in rows and
  // in columns (4). By rows, it is read, written, and copied in columns (5), which are read and written (3).
  // (pytorch/ao at 36027d8, torchao/testing/training/roofline_utils.py, get_tensor_memory_traffic_ovhd_s, without
  // fusion; Transformer Engine's current scaling likewise.) One operand serves q, k and v, and one gate and up.
  const bool rows = scaling == "rowwise";
  const double cast = rows ? 8 : scaling == "delayed" ? 4 : 6;  // delayed: the largest is found while casting
  // Scaled by row, operands are cast where tensor parallelism has gathered them.
  Unfused all{{{cast * 2, !rows}, {cast * (1 + mlp), kSharded}}, {{cast * 2, !rows}, {cast * (qkv + up), kSharded}}, 0};
  // Weights, there too: tensorwise 2 and 3 forward and 3 backward, and gathered in 8 bits only a transposition; by rows
  // 3, and 4 and 3 backward. Transformer Engine keeps them from a step's first microbatch on.
  if (scaling == "tensorwise" && !gathered) all.forward.push_back({5, kSharded, true});
  if (rows) all.forward.push_back({3, kSharded, true});
  const double back = rows ? 7 : gathered ? 2 : scaling == "tensorwise" ? 3 : 0;
  all.backward.push_back({back, kSharded, true});
  all.narrow = !rows;
  return all;
}

namespace {

/// Cards of one kind differ, since each chip's power limit leaves it another clock: on five clusters by 8% on average,
/// outliers aside (Sinha et al., Not All GPUs Are Created Equal, SC '22, arXiv 2208.11035). We take these for the ends
/// of a box plot, which lie 2.7 standard deviations on both sides of the mean.
constexpr double kDeviation = 0.08 / (2 * 2.698);

/// The x below which a share p of a normal distribution lies.
double normal_quantile(double p) {
  double low = -10, high = 10;
  while (high - low > 1e-9) (0.5 * std::erfc(-(low + high) / 2 / std::sqrt(2.0)) < p ? low : high) = (low + high) / 2;
  return low;
}

}  // namespace

double slowest_of(int gpus) {  // Blom's approximation of the largest's expectation
  return 1 + kDeviation * normal_quantile((gpus - 0.375) / (gpus + 0.25));
}

void wait_for_slowest(Machine& machine, int gpus) {
  const double longer = slowest_of(gpus);
  machine.library->matmul_flop_per_second /= longer, machine.library->fp8_flop_per_second /= longer;
  for (FlashKernel& kernel : machine.library->flash)
    for (AttentionPoint& point : kernel.points) point.forward /= longer, point.backward /= longer;
}

void use_fp8(Task& task, const std::string& scaling, bool gathered) {
  Machine& machine = task.cluster.machine;
  if (!machine.by_library || machine.library->fp8_flop_per_second == 0)
    throw Error(Verdict::usage,
                fmt::format("fp8: {}", machine.by_library
                                           ? fmt::format("the library of {} has no fp8_flop_per_second", machine.name)
                                           : "the labs have no products of 8 bits; add --prices library"));
  machine.library->fp8 = true;
  const Unfused more = casts(scaling, gathered, task.model);
  task.unfused.forward.insert(task.unfused.forward.end(), more.forward.begin(), more.forward.end());
  task.unfused.backward.insert(task.unfused.backward.end(), more.backward.begin(), more.backward.end());
  task.unfused.narrow = more.narrow;
  if (gathered) task.gathered = 0.5;
}

}  // namespace lockstep::plan
