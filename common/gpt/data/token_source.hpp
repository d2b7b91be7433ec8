// A source of tokens: memory, or a file that is read where a batch needs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual std::size_t size() const = 0;         ///< in tokens
  virtual std::size_t token_bytes() const = 0;  ///< stored size of one token
  /// Reads tokens first … first + into.size() − 1, which must exist. Throws Error(usage) for a token that the tokenizer
  /// lacks.
  virtual void read(std::size_t first, std::span<std::int32_t> into) const = 0;
};

class TokensInMemory : public TokenSource {
 public:
  explicit TokensInMemory(std::vector<std::int32_t> tokens) : tokens_(std::move(tokens)) {}
  std::size_t size() const override { return tokens_.size(); }
  std::size_t token_bytes() const override { return sizeof(std::int32_t); }
  void read(std::size_t first, std::span<std::int32_t> into) const override;

 private:
  std::vector<std::int32_t> tokens_;
};

/// A part of a text: its training or its validation tokens.
class Tokens {
 public:
  Tokens(std::shared_ptr<const TokenSource> source, std::size_t first, std::size_t count)
      : source_(std::move(source)), first_(first), count_(count) {}
  std::size_t size() const { return count_; }
  void read(std::size_t first, std::span<std::int32_t> into) const { source_->read(first_ + first, into); }
  std::int32_t operator[](std::size_t i) const {
    std::int32_t token = 0;
    read(i, {&token, 1});
    return token;
  }
  std::vector<std::int32_t> first(std::size_t count) const {
    std::vector<std::int32_t> tokens(count);
    read(0, tokens);
    return tokens;
  }
  std::vector<std::int32_t> all() const { return first(count_); }

 private:
  std::shared_ptr<const TokenSource> source_;
  std::size_t first_, count_;
};

}  // namespace lockstep
