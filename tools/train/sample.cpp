#include "tools/train/sample.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace lockstep::train {

namespace {

/// A token drawn from softmax(logits / temperature); `u` is uniform in [0, 1).
std::int32_t draw(const std::vector<float>& logits, double temperature, double u) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (float logit : logits) total += std::exp((logit - most) / temperature);
  double passed = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    passed += std::exp((logits[i] - most) / temperature) / total;
    if (u < passed) return static_cast<std::int32_t>(i);
  }
  return static_cast<std::int32_t>(logits.size()) - 1;
}

}  // namespace

std::string sample_text(Rank me, const Gpt& gpt, const Corpus& corpus, std::size_t window,
                        const SampleOptions& options) {
  auto phase = me.region("sample");
  std::vector<std::int32_t> text = corpus.encode(options.prompt);
  if (text.empty()) text.push_back(corpus.train().front());
  Activations saved = gpt.allocate_activations(me, 1, window);
  const Slice tokens = me.allocate(window, DType::i32, Category::buffer);
  std::mt19937_64 random(options.seed);
  for (std::size_t n = 0; n < options.tokens; ++n) {
    const std::size_t seen = std::min(window, text.size());
    std::vector<std::int32_t> input(text.end() - static_cast<std::ptrdiff_t>(seen), text.end());
    input.resize(window);  // what comes later has no influence
    upload(me, tokens, input);
    gpt.forward(me, {tokens, {}, 1, window}, saved);
    std::vector<float> logits =
        to_host(me, saved.logits.cut((seen - 1) * gpt.config().vocabulary, gpt.config().vocabulary));
    logits.resize(std::min(logits.size(), corpus.vocabulary()));
    text.push_back(draw(logits, options.temperature, std::uniform_real_distribution<>()(random)));
  }
  return corpus.decode(text);
}

std::string printable(const std::string& text) {
  std::string result;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if ((byte >= 0x20 && byte != 0x7f) || letter == '\n' || letter == '\t')
      result += letter;
    else
      result += fmt::format("\\x{:02x}", byte);
  }
  return result;
}

}  // namespace lockstep::train
