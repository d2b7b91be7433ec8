#include "tools/train/sample.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string_view>
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
  if (text.empty()) text.push_back(corpus.train()[0]);
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

/// Bytes of the character of UTF-8 that `text` begins with; 0 where it begins with none (RFC 3629, section 4).
static std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const unsigned char second = byte(1);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool surrogate = first == 0xed && second >= 0xa0, beyond = first == 0xf4 && second >= 0x90;
  return overlong || surrogate || beyond ? 0 : length;
}

std::string printable(const std::string& text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(std::string_view(text).substr(at));
    const auto byte = static_cast<unsigned char>(text[at]);
    const bool control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f;
    if (length == 0 || control)
      result += fmt::format("\\x{:02x}", byte);
    else
      result += text.substr(at, length);
    at += std::max<std::size_t>(length, 1);
  }
  return result;
}

}  // namespace lockstep::train
