// Files of tokens that another program has made from a text: the .bin format of llm.c (github.com/karpathy/llm.c,
// dev/data/data_common.py), little-endian. 256 int32: a magic number, a version, the number of tokens, zeros; then the
// tokens, GPT-2's as uint16 (magic 20240520, version 1), Llama 3's as uint32 (magic 20240801, version 7).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct TokenFile {
  std::size_t vocabulary = 0;  ///< of the tokenizer: 50,257 or 128,256
  std::vector<std::int32_t> tokens;
};

/// None where `bytes` do not begin as such a file does. Throws Error(usage) with one sentence for a header with another
/// magic number or version, a file that ends too early or goes on too long, and a token that the tokenizer does not
/// have; `name` is what it calls the file.
std::optional<TokenFile> read_token_file(std::string_view bytes, const std::string& name);

}  // namespace lockstep
