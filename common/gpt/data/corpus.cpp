#include "common/gpt/data/corpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <unordered_map>

#include "common/error.hpp"
#include "common/support/stats/mix.hpp"
#include "common/support/text/files.hpp"
#include "common/support/text/parse_number.hpp"

namespace lockstep {
namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw Error(Verdict::usage, fmt::format("corpus {}: {}", name, why));
}

/// Returns the length in bytes of the UTF-8 code point at the beginning of `text`; 0 if it is malformed.
std::size_t code_point_bytes(std::string_view text) {
  auto byte = static_cast<unsigned char>(text[0]);
  std::size_t bytes = byte < 0x80 ? 1 : byte >> 5 == 6 ? 2 : byte >> 4 == 14 ? 3 : byte >> 3 == 30 ? 4 : 0;
  if (bytes == 0 || bytes > text.size()) return 0;
  for (std::size_t i = 1; i < bytes; ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
  return bytes;
}

/// Splits the text into code points. UTF-8 sorts in the order of its code points.
std::vector<std::string_view> characters(std::string_view text, const std::string& name) {
  std::vector<std::string_view> pieces;
  pieces.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    std::size_t bytes = code_point_bytes(text.substr(at));
    if (bytes == 0) refuse(name, fmt::format("byte {} is not UTF-8: use bytes as tokens instead of characters", at));
    pieces.push_back(text.substr(at, bytes));
    at += bytes;
  }
  return pieces;
}

/// Returns a number, uniform in 0 … bound − 1, that depends on the three counters alone.
std::size_t random_place(std::uint64_t seed, std::uint64_t step, std::uint64_t row, std::size_t bound) {
  std::uint64_t bits = mix(mix(mix(seed) ^ step) ^ row);
  return static_cast<std::size_t>((static_cast<unsigned __int128>(bits) * bound) >> 64);
}

void append_row(TextBatch& batch, const Tokens& text, std::size_t begin) {
  std::vector<std::int32_t> row(batch.length + 1);
  text.read(begin, row);
  batch.inputs.insert(batch.inputs.end(), row.begin(), row.end() - 1);
  batch.targets.insert(batch.targets.end(), row.begin() + 1, row.end());
}

TextBatch empty_batch(std::size_t sequences, std::size_t length) {
  TextBatch batch{.sequences = sequences, .length = length};
  batch.inputs.reserve(sequences * length);
  batch.targets.reserve(sequences * length);
  return batch;
}

/// A token file and its memory mapping.
class MappedTokens : public TokenSource {
 public:
  MappedTokens(std::unique_ptr<MappedFile> file, TokenFile tokens)
      : file_(std::move(file)), tokens_(std::move(tokens)) {}
  std::size_t size() const override { return tokens_.size(); }
  std::size_t token_bytes() const override { return tokens_.token_bytes(); }
  void read(std::size_t first, std::span<std::int32_t> into) const override { tokens_.read(first, into); }

 private:
  std::unique_ptr<MappedFile> file_;
  TokenFile tokens_;
};

}  // namespace

void TokensInMemory::read(std::size_t first, std::span<std::int32_t> into) const {
  std::copy_n(tokens_.begin() + static_cast<std::ptrdiff_t>(first), into.size(), into.begin());
}

TextBatch TextBatch::rows(std::size_t first, std::size_t count) const {
  if (first + count > sequences)
    throw Error(Verdict::usage,
                fmt::format("rows {} to {} of a batch of {} sequences", first, first + count, sequences));
  auto cut = [&](const std::vector<std::int32_t>& all) {
    auto begin = all.begin() + static_cast<std::ptrdiff_t>(first * length);
    return std::vector<std::int32_t>(begin, begin + static_cast<std::ptrdiff_t>(count * length));
  };
  return {.sequences = count, .length = length, .inputs = cut(inputs), .targets = cut(targets)};
}

Corpus Corpus::read(const std::string& path, TokenKind kind, double validation_share) {
  auto file = std::make_unique<MappedFile>(path);
  const std::string_view bytes = file->bytes();
  std::optional<TokenFile> tokens = TokenFile::in(bytes, path);
  if (!tokens) return of_text(bytes, kind, validation_share, path);
  file->expect_no_order();
  const std::size_t vocabulary = tokens->vocabulary();
  return of_source(std::make_shared<MappedTokens>(std::move(file), std::move(*tokens)), vocabulary, validation_share,
                   path);
}

Corpus Corpus::of_text(std::string_view text, TokenKind kind, double validation_share, const std::string& name) {
  if (text.empty()) refuse(name, "is empty");
  Corpus corpus;
  corpus.name_ = name;
  corpus.kind_ = kind;
  if (kind == TokenKind::bytes) {
    for (int byte = 0; byte < 256; ++byte) corpus.vocabulary_.emplace_back(1, static_cast<char>(byte));
  } else {
    std::vector<std::string_view> pieces = characters(text, name);
    std::set<std::string_view> distinct(pieces.begin(), pieces.end());
    corpus.vocabulary_.assign(distinct.begin(), distinct.end());
  }
  corpus.tokens_ = std::make_shared<TokensInMemory>(corpus.encode(text));
  corpus.keep_for_validation(validation_share);
  return corpus;
}

Corpus Corpus::of_source(std::shared_ptr<const TokenSource> source, std::size_t vocabulary, double validation_share,
                         const std::string& name) {
  if (source->size() == 0) refuse(name, "is empty");
  Corpus corpus;
  corpus.name_ = name;
  corpus.kind_ = TokenKind::numbers;
  for (std::size_t i = 0; i < vocabulary; ++i) corpus.vocabulary_.push_back(std::to_string(i) + ' ');
  corpus.tokens_ = std::move(source);
  corpus.keep_for_validation(validation_share);
  return corpus;
}

void Corpus::keep_for_validation(double share) {
  if (!(share >= 0 && share < 1)) refuse(name_, fmt::format("a validation share of {} is not between 0 and 1", share));
  split_ = tokens_->size() - static_cast<std::size_t>(static_cast<double>(tokens_->size()) * share);
}

std::vector<std::int32_t> Corpus::encode_numbers(std::string_view text) const {
  std::vector<std::int32_t> tokens;
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    const auto token = parse_number<std::size_t>(word);
    tokens.push_back(token && *token < vocabulary() ? static_cast<std::int32_t>(*token) : 0);
  }
  return tokens;
}

std::vector<std::int32_t> Corpus::encode(std::string_view text) const {
  std::vector<std::int32_t> tokens;
  if (kind_ == TokenKind::bytes) {
    for (char letter : text) tokens.push_back(static_cast<unsigned char>(letter));
    return tokens;
  }
  if (kind_ == TokenKind::numbers) return encode_numbers(text);
  std::unordered_map<std::string_view, std::int32_t> number;
  for (std::size_t i = 0; i < vocabulary_.size(); ++i) number[vocabulary_[i]] = static_cast<std::int32_t>(i);
  for (std::string_view piece : characters(text, name_)) {
    auto found = number.find(piece);
    tokens.push_back(found == number.end() ? 0 : found->second);
  }
  return tokens;
}

std::string Corpus::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (std::int32_t token : tokens) text += vocabulary_.at(static_cast<std::size_t>(token));
  return text;
}

void Corpus::require_length(const Tokens& part, const char* which, std::size_t length) const {
  if (part.size() < length + 1)
    refuse(name_, fmt::format("its {} part has {} tokens, too few for a sequence of {} and the token after it", which,
                              part.size(), length));
}

TextBatch Corpus::batch_rows(std::uint64_t step, std::size_t first, std::size_t count, std::size_t length,
                             std::uint64_t seed) const {
  require_length(train(), "training", length);
  TextBatch batch = empty_batch(count, length);
  for (std::size_t row = first; row < first + count; ++row)
    append_row(batch, train(), random_place(seed, step, row, split_ - length));
  return batch;
}

TextBatch Corpus::validation_batch(std::uint64_t index, std::size_t sequences, std::size_t length) const {
  require_length(validation(), "validation", length);
  std::size_t stretches = (validation().size() - 1) / length;
  TextBatch batch = empty_batch(sequences, length);
  for (std::size_t row = 0; row < sequences; ++row)
    append_row(batch, validation(), (index * sequences + row) % stretches * length);
  return batch;
}

double Corpus::unigram_entropy() const {
  // Stretches of 4,096 tokens: all of them, or 4,096 evenly spaced ones.
  constexpr std::size_t kStretch = 4096, kMost = 4096;
  const std::size_t stretches = (split_ + kStretch - 1) / kStretch, looked_at = std::min(stretches, kMost);
  std::vector<double> counts(vocabulary(), 0.0);
  std::vector<std::int32_t> tokens;
  double total = 0;
  for (std::size_t i = 0; i < looked_at; ++i) {
    const std::size_t first = i * stretches / looked_at * kStretch;
    tokens.resize(std::min(kStretch, split_ - first));
    train().read(first, tokens);
    for (const std::int32_t token : tokens) ++counts[static_cast<std::size_t>(token)];
    total += static_cast<double>(tokens.size());
  }
  double entropy = 0;
  for (double count : counts)
    if (count > 0) entropy -= count / total * std::log(count / total);
  return entropy;
}

}  // namespace lockstep
