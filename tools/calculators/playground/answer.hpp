// Computes all that the page shows, by the suite's own functions, in the browser (exports.cpp) and natively (main.cpp).
// JavaScript only draws it.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "common/error.hpp"
#include "labs/week21_data_parallel/cost_model.hpp"
#include "tools/calculators/playground/request.hpp"

namespace lockstep::playground {

/// Something to ask about, by the name that its questions begin with.
struct View {
  std::string_view name;
  std::string (*answer)(const Request& request);
};

/// Returns the answer of one of `views` in JSON; {"error": "…"} where the question makes no sense. Times are in the
/// unit of the question.
std::string answer(std::string_view question, std::span<const View> views);

/// An error's message, without the line of C++ that a misuse names.
std::string sentence(const Error& error);

// The views' answers, each with its fields. They throw Error(usage).

/// Every schedule of week 24 for p stages, m microbatches and v chunks (of interleaved). f, b, w, hop: times of a
/// stage's steps and of a hop, in any unit.
std::string pipeline(const Request& request);
/// A schedule of your own, `text`, with at most `limit` microbatches in flight (0: no limit): the checker's verdict.
std::string schedule(const Request& request);
/// Bytes on one of p GPUs of `gpu` bytes, for each ZeRO stage. `recipe`: a tool's, or a dtype's (bf16, f32, bf16-only).
/// parameters, largest (layer) and token_bytes (of activations) describe the model, b sequences of s tokens the batch.
std::string memory(const Request& request);
/// Seconds of each all-reduce of p ranks by bytes, and at n bytes.
std::string all_reduce(const Request& request);
/// A step of f + b ms whose n bytes of gradients p ranks average in k buckets during the backward pass.
std::string overlap(const Request& request);
/// The best layout of each dp · tp · pp: a preset `model` in bf16, `batch` sequences per step of its context, on the
/// first `gpus` of nodes of `machine`. `zero` and `again` (recomputation: 0 or 1) may be "any". Times in seconds.
std::string plan_layouts(const Request& request);

/// A `program` of cluster_programs.hpp on p ranks of the simulator, with two arrays of `elements` fp32 each. A send of
/// more than `eager` bytes waits for its receive. Times in seconds.
std::string cluster(const Request& request);

/// Views of the page's first core; the cluster is the second.
inline constexpr std::array<View, 6> kViews{{{"pipeline", pipeline},
                                             {"schedule", schedule},
                                             {"memory", memory},
                                             {"all_reduce", all_reduce},
                                             {"overlap", overlap},
                                             {"plan", plan_layouts}}};
inline constexpr std::array<View, 1> kClusterViews{{{"cluster", cluster}}};

/// alpha, launch: µs; link, add: GB/s.
week21::CostModel cost_of(const Request& request);

}  // namespace lockstep::playground
