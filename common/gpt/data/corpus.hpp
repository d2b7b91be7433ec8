// A text as tokens, and the training batches drawn from it. Every rank takes its rows of each batch; the batch does not
// depend on the number of ranks. A text is read whole (a few MB); a token file, which may be of any size, only where a
// batch needs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/gpt/data/token_file.hpp"

namespace lockstep {

/// `numbers`: the tokens of a token file.
enum class TokenKind { bytes, characters, numbers };

/// Rows of `length` tokens, and the token that follows each: targets[r][t] = inputs[r][t + 1]. Both are sequences ×
/// length.
struct TextBatch {
  std::size_t sequences = 0;
  std::size_t length = 0;
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> targets;

  /// Returns rows first … first + count − 1: a rank's shard of the global batch.
  TextBatch rows(std::size_t first, std::size_t count) const;
};

class Corpus {
 public:
  /// Reads a text file. Bytes: 256 tokens, any file. Characters: the code points that occur, in order; the file must be
  /// UTF-8. A token file (token_file.hpp) is recognised by its first bytes: its tokens are numbers, whatever `kind` is.
  /// It is mapped, not read; a token outside its tokenizer's vocabulary is an error when a batch reaches it. The last
  /// `validation_share` of the text is kept for validation. Throws Error(usage) with one sentence if the file cannot be
  /// read, is empty, is not UTF-8, or is a malformed token file.
  static Corpus read(const std::string& path, TokenKind kind, double validation_share = 0.1);
  /// Reads from memory instead; `name` is used in messages.
  static Corpus of_text(std::string_view text, TokenKind kind, double validation_share = 0.1,
                        const std::string& name = "text");

  /// Takes tokens from another source, all below `vocabulary`. They are numbers, like those of a token file.
  static Corpus of_source(std::shared_ptr<const TokenSource> source, std::size_t vocabulary,
                          double validation_share = 0.1, const std::string& name = "text");

  std::size_t vocabulary() const { return vocabulary_.size(); }
  Tokens train() const { return {tokens_, 0, split_}; }
  Tokens validation() const { return {tokens_, split_, tokens_->size() - split_}; }

  /// encode: from text to tokens; a symbol outside the vocabulary becomes token 0. decode: from tokens to text. For a
  /// token file the text is the tokens' numbers, separated by spaces.
  std::vector<std::int32_t> encode(std::string_view text) const;
  std::string decode(std::span<const std::int32_t> tokens) const;

  /// Returns the global batch of a step. Each row begins at a random position in the training text that depends on
  /// (seed, step, row) alone. Throws Error(usage) if the text is shorter than length + 1.
  TextBatch batch(std::uint64_t step, std::size_t sequences, std::size_t length, std::uint64_t seed = 0) const {
    return batch_rows(step, 0, sequences, length, seed);
  }
  /// Returns only rows first … first + count − 1 of that batch.
  TextBatch batch_rows(std::uint64_t step, std::size_t first, std::size_t count, std::size_t length,
                       std::uint64_t seed) const;
  /// Bytes of these rows in the source, including the token after each row.
  std::size_t bytes_of_rows(std::size_t count, std::size_t length) const {
    return count * (length + 1) * tokens_->token_bytes();
  }
  /// Returns consecutive stretches of the validation text, starting with batch number `index`; wraps around at its end.
  TextBatch validation_batch(std::uint64_t index, std::size_t sequences, std::size_t length) const;

  /// Returns −Σ f ln f over the training tokens' frequencies, in nats: the loss of a model that knows only how often
  /// each token occurs. Samples 16 Mi tokens of a longer text.
  double unigram_entropy() const;

  TokenKind kind() const { return kind_; }

 private:
  std::vector<std::int32_t> encode_numbers(std::string_view text) const;
  void keep_for_validation(double share);
  void require_length(const Tokens& part, const char* which, std::size_t length) const;

  std::string name_;
  TokenKind kind_ = TokenKind::bytes;
  std::vector<std::string> vocabulary_;  // text of each token
  std::shared_ptr<const TokenSource> tokens_;
  std::size_t split_ = 0;  // number of training tokens
};

}  // namespace lockstep
