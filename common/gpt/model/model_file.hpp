// A model by its name, or by a file that describes it: transformers' config.json of a GPT-2 or a Llama.
//
//   {"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 256, "intermediate_size": 704,
//    "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 1000, "max_position_embeddings": 128}
#pragma once

#include <string>

#include "common/gpt/model/config.hpp"

namespace lockstep {

/// gpt_preset, or where the name ends with .json what that file says. Throws Error(usage) with one sentence; also for
/// what a file asks for and no operation here does.
GptConfig find_model(const std::string& name);

/// The model that such a text describes; `path` is for messages.
GptConfig parse_model(const std::string& text, const std::string& path);
/// The same text of a model. Throws Error(usage) where its block is neither GPT-2's nor Llama's.
std::string model_text(const GptConfig& model);

/// ", RMSNorm, rotary positions of base 500000, SwiGLU 176 wide, 2 key-value heads, no biases": how a model's block
/// differs from GPT-2's; "" where it does not.
std::string describe_architecture(const GptConfig& model);

}  // namespace lockstep
