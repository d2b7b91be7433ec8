// Reads the words of the command line that name a type, a rule or a method: a function for each option, with its
// refusals.
#include "tools/train/choices.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdlib>

#include "common/support/text/nearest.hpp"
#include "common/support/text/storage.hpp"
#include "labs/week21_data_parallel/large_batch.hpp"
#include "tools/train/plan.hpp"

namespace lockstep::train {

void refuse(const std::string& sentence) { throw Error(Verdict::usage, sentence); }

namespace {

/// AdamW divides the mean of gradients by √v + ε. With an ε far above every gradient that is a constant, and what is
/// left is gradient descent with momentum; rates and decay are then in units of it.
constexpr float kDescentEpsilon = 1e6f;

week21::Compression compression_named(const std::string& name) {
  using week21::Method;
  if (name.empty()) return {};
  if (name == "int8") return {.method = Method::int8};
  if (name == "int8-two-step") return {.method = Method::int8_two_step};
  const std::string topk = "topk:", mixed = "topk+int8:";
  const bool both = name.starts_with(mixed);
  if (!both && !name.starts_with(topk))
    refuse(unknown_name("--compress", name,
                        std::array<std::string, 4>{"topk:0.01", "int8", "int8-two-step", "topk+int8:0.01"}));
  const char *from = name.c_str() + (both ? mixed : topk).size(), *end = from;
  const double density = std::strtod(from, const_cast<char**>(&end));
  if (end == from || *end || !(density >= 1e-9 && density <= 1))
    refuse(fmt::format("--compress {}: the share of elements to send must be from 1e-9 to 1", name));
  return {.method = both ? Method::mixed : Method::top_k, .density = density};
}

}  // namespace

week22::Precision precision_of(const TrainRequest& r) {
  week22::Precision precision = week22::precision_of(r.precision);
  if (r.fp32_gradients) precision.reduce = DType::f32;
  if (!r.reduce.empty()) precision.reduce = parse_storage(r.reduce, "type of sums");
  return precision;
}

week22::Recompute recompute_of(const TrainRequest& r) {
  using week22::Recompute;
  if (r.recompute == "none") return Recompute::none;
  if (r.recompute == "full") return Recompute::full;
  if (r.recompute != "selective")
    refuse(unknown_name("recompute", r.recompute, std::array<std::string, 3>{"none", "selective", "full"}));
  if (attention_of(r.attention) == AttentionKind::flash)
    refuse(
        "--recompute selective recomputes probabilities, which flash attention does not keep: add --attention "
        "materialised, or use --recompute full");
  return Recompute::selective;
}

AttentionKind attention_of(const std::string& name) {
  if (name == "flash") return AttentionKind::flash;
  if (name == "materialised") return AttentionKind::materialised;
  refuse(unknown_name("attention", name, std::array<std::string, 2>{"flash", "materialised"}));
}

/// The first loss scale; none where there is no fp16, or it is off.
std::optional<float> loss_scale_of(const TrainRequest& r) {
  if (r.precision != "fp16") {
    if (r.loss_scale != "dynamic") refuse(fmt::format("--loss-scale is for --precision fp16, not {}", r.precision));
    return std::nullopt;
  }
  if (r.loss_scale == "off") return std::nullopt;
  if (r.loss_scale == "dynamic") return 65536.0f;
  const bool power = r.loss_scale.starts_with("2^");
  const char *from = r.loss_scale.c_str() + (power ? 2 : 0), *end = from;
  const float number = std::strtof(from, const_cast<char**>(&end)), scale = power ? std::exp2(number) : number;
  int exponent = 0;
  if (end == from || *end || !(scale >= kLeastLossScale && scale <= 1 / kLeastLossScale / kLeastLossScale) ||
      std::frexp(scale, &exponent) != 0.5f)
    refuse(
        fmt::format("--loss-scale needs dynamic, off or a power of two from 2^-24 to 2^48 such as 1024 or 2^10, not "
                    "'{}'",
                    r.loss_scale));
  return scale;
}

week21::RateRule rate_rule_of(const std::string& name) {
  if (name == "none") return week21::RateRule::none;
  if (name == "linear") return week21::RateRule::linear;
  if (name == "sqrt") return week21::RateRule::square_root;
  refuse(unknown_name("--lr-scaling", name, std::array<std::string, 3>{"none", "linear", "sqrt"}));
}

week21::Compression compression_of(const TrainRequest& r, int data_ranks) {
  week21::Compression compression = compression_named(r.compress);
  if (r.no_feedback && !keeps_errors(compression))
    refuse("--no-feedback is for --compress topk:DENSITY and topk+int8:DENSITY, the methods with error feedback");
  compression.feedback = !r.no_feedback;
  compression.seed = r.seed;
  if (r.compress.empty()) return compression;
  if (r.cp > 1 || r.tp > 1 || r.pp > 1 || r.zero > 0)
    refuse("--compress is for plain data parallelism: leave out --cp, --tp, --pp and --zero");
  if (data_ranks == 1) refuse("--compress needs at least two ranks: a single one sends nothing");
  if (r.precision != "fp32" || (!r.reduce.empty() && r.reduce != "fp32"))
    refuse("--compress compresses fp32 gradients: leave out --precision and --reduce");
  return compression;
}

std::optional<week21::OuterSgd> outer_of(const TrainRequest& r, int data_ranks) {
  if (r.outer_steps == 0) {
    if (r.asks("--outer-lr") || r.asks("--outer-momentum"))
      refuse("--outer-lr and --outer-momentum are for --outer-steps H");
    return {};
  }
  if (r.cp > 1 || r.tp > 1 || r.pp > 1 || r.zero > 0 || !r.compress.empty())
    refuse(
        "--outer-steps is for plain data parallelism, whose ranks each have the whole model: leave out --cp, --tp, "
        "--pp, --zero and --compress");
  if (data_ranks == 1) refuse("--outer-steps needs at least two ranks: a single one has no others to average with");
  if (r.precision != "fp32" || !r.reduce.empty())
    refuse("--outer-steps averages fp32 parameters: leave out --precision and --reduce");
  return week21::OuterSgd{.every = r.outer_steps,
                          .learning_rate = static_cast<float>(r.outer_learning_rate),
                          .momentum = static_cast<float>(r.outer_momentum)};
}

TokenKind token_kind_of(const std::string& name) {
  if (name == "byte" || name == "bytes") return TokenKind::bytes;
  if (name == "char" || name == "characters") return TokenKind::characters;
  refuse(unknown_name("kind of tokens", name, std::array<std::string, 2>{"byte", "char"}));
}

AdamW optimizer_of(const TrainRequest& r) {
  if (r.optimizer == "adamw") return {.weight_decay = static_cast<float>(r.weight_decay.value_or(0.1))};
  if (r.optimizer == "sgd")
    return {.epsilon = kDescentEpsilon,
            .weight_decay = static_cast<float>(r.weight_decay.value_or(0)) / kDescentEpsilon};
  refuse(unknown_name("--optimizer", r.optimizer, std::array<std::string, 2>{"adamw", "sgd"}));
}

float learning_rate(int step, const TrainRequest& r) {
  const week21::RateRule rule = rate_rule_of(r.lr_scaling);
  week21::RateSchedule schedule{.first = 0, .peak = r.learning_rate, .warmup = r.warmup, .steps = r.steps};
  if (rule != week21::RateRule::none) {
    schedule = week21::schedule_for_batch(schedule, r.base_batch, r.batch, rule, r.warmup);
    schedule.steps = r.steps;  // --steps are of this batch
  }
  return static_cast<float>(week21::rate_at(schedule, step));
}

float optimizer_rate(int step, const TrainRequest& r) {
  return learning_rate(step, r) * (r.optimizer == "sgd" ? kDescentEpsilon : 1);
}

}  // namespace lockstep::train
