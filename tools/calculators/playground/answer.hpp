// What the page shows is computed here, by the suite's own functions, in the browser (exports.cpp) and natively
// (main.cpp). JavaScript only draws it.
#pragma once

#include <string>
#include <string_view>

#include "common/error.hpp"
#include "labs/week21_data_parallel/cost_model.hpp"
#include "tools/calculators/playground/request.hpp"

namespace lockstep::playground {

/// Returns the answer in JSON; {"error": "…"} where the question makes no sense. Times are in the unit of the question.
std::string answer(std::string_view question);

/// An error's message, without the line of C++ that a misuse names.
std::string sentence(const Error& error);

// The views, each with its fields. They throw Error(usage).

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

/// alpha, launch: µs; link, add: GB/s.
week21::CostModel cost_of(const Request& request);

}  // namespace lockstep::playground
