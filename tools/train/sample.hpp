// Text from a trained model.
#pragma once

#include <cstdint>
#include <string>

#include "common/gpt/data/corpus.hpp"
#include "common/gpt/model/gpt.hpp"

namespace lockstep::train {

struct SampleOptions {
  std::size_t tokens = 300;
  std::string prompt;
  double temperature = 0.8;
  std::uint64_t seed = 1;
};

/// `prompt` and `tokens` tokens after it, each drawn from softmax(logits / temperature). Positions beyond `window`, the
/// length that was trained, fall out at the front.
std::string sample_text(Rank me, const Gpt& gpt, const Corpus& corpus, std::size_t window,
                        const SampleOptions& options);

/// `text` as a terminal may have it: control bytes, which a model draws before it knows better, as \\x1b.
std::string printable(const std::string& text);

}  // namespace lockstep::train
