// A text as tokens, and the batches of it that training reads. Every rank takes its rows of each batch; nothing depends
// on how many ranks there are. A text is read whole (a few MB), a token file where a batch needs it, whatever its size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/gpt/data/token_file.hpp"

namespace lockstep {

/// `numbers`: those of a token file.
enum class TokenKind { bytes, characters, numbers };

/// Rows of `length` tokens, and the tokens that follow each: targets[r][t] = inputs[r][t + 1]. Both sequences × length.
struct TextBatch {
  std::size_t sequences = 0;
  std::size_t length = 0;
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> targets;

  /// Rows first … first + count − 1: a rank's share of the global batch.
  TextBatch rows(std::size_t first, std::size_t count) const;
};

class Corpus {
 public:
  /// Reads a text file. Bytes: 256 tokens, any file. Characters: the code points that occur, in order; the file must be
  /// UTF-8. A token file (token_file.hpp) is known by its first bytes: its tokens are numbers, whatever `kind` says.
  /// It is not read but mapped; a token that its tokenizer lacks is refused when a batch comes to it. The last
  /// `validation_share` of the text is kept for validation. Throws Error(usage) with one sentence where the
  /// file cannot be read, is empty, is not UTF-8, or is a token file with something wrong.
  static Corpus read(const std::string& path, TokenKind kind, double validation_share = 0.1);
  /// The same from memory; `name` is what messages call it.
  static Corpus of_text(std::string_view text, TokenKind kind, double validation_share = 0.1,
                        const std::string& name = "text");

  /// Tokens from elsewhere, below `vocabulary`: numbers, as those of a token file.
  static Corpus of_source(std::shared_ptr<const TokenSource> source, std::size_t vocabulary,
                          double validation_share = 0.1, const std::string& name = "text");

  std::size_t vocabulary() const { return vocabulary_.size(); }
  Tokens train() const { return {tokens_, 0, split_}; }
  Tokens validation() const { return {tokens_, split_, tokens_->size() - split_}; }

  /// Text to tokens; what the vocabulary lacks becomes token 0. Tokens to text. Of a token file the text is the tokens'
  /// numbers, with spaces between.
  std::vector<std::int32_t> encode(std::string_view text) const;
  std::string decode(std::span<const std::int32_t> tokens) const;

  /// The global batch of a step: each row begins at a random place of the training text that depends on (seed, step,
  /// row) alone. Throws Error(usage) where the text is shorter than length + 1.
  TextBatch batch(std::uint64_t step, std::size_t sequences, std::size_t length, std::uint64_t seed = 0) const {
    return batch_rows(step, 0, sequences, length, seed);
  }
  /// Rows first … first + count − 1 of it alone.
  TextBatch batch_rows(std::uint64_t step, std::size_t first, std::size_t count, std::size_t length,
                       std::uint64_t seed) const;
  /// What these rows are where the tokens are: each row's, and the one after them.
  std::size_t bytes_of_rows(std::size_t count, std::size_t length) const {
    return count * (length + 1) * tokens_->token_bytes();
  }
  /// Consecutive stretches of the validation text, from the `index`-th batch on, beginning again at its end.
  TextBatch validation_batch(std::uint64_t index, std::size_t sequences, std::size_t length) const;

  /// −Σ f ln f over the training tokens' frequencies, in nats: the loss of a model that knows only how often each
  /// occurs. Of a long text, from 16 Mi of its tokens.
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
  std::size_t split_ = 0;  // tokens for training
};

}  // namespace lockstep
