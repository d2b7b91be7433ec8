// Files of tokens that another program has made from a text: the .bin format of llm.c (github.com/karpathy/llm.c,
// dev/data/data_common.py), little-endian. A header of 256 int32 (a magic number, a version, the number of tokens,
// zeros), then the tokens: GPT-2's as uint16 (magic 20240520, version 1), Llama 3's as uint32 (magic 20240801, version
// 7).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/gpt/data/token_source.hpp"

namespace lockstep {

/// The tokens of such a file, read in place.
class TokenFile : public TokenSource {
 public:
  /// Returns nothing if `bytes` do not begin with such a header. Throws Error(usage) with one sentence for a header
  /// with another magic number or version, and for a file that is too short or too long; `name` names it in the
  /// message. The bytes must outlive the object; only the header is read before tokens are.
  static std::optional<TokenFile> in(std::string_view bytes, const std::string& name);

  std::size_t vocabulary() const { return vocabulary_; }  ///< the tokenizer's: 50,257 or 128,256
  std::size_t size() const override { return tokens_.size() / token_bytes_; }
  std::size_t token_bytes() const override { return token_bytes_; }
  void read(std::size_t first, std::span<std::int32_t> into) const override;

 private:
  TokenFile(std::string name, std::size_t vocabulary, std::size_t token_bytes, std::string_view tokens)
      : name_(std::move(name)), vocabulary_(vocabulary), token_bytes_(token_bytes), tokens_(tokens) {}

  std::string name_;
  std::size_t vocabulary_, token_bytes_;
  std::string_view tokens_;
};

}  // namespace lockstep
