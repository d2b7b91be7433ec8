// Finds a model by name, or by a file that describes it: a config.json of transformers for a GPT-2, a Llama or a
// Mixtral.
//
//   {"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 256, "intermediate_size": 704,
//    "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 1000, "max_position_embeddings": 128}
#pragma once

#include <string>

#include "common/gpt/model/config.hpp"

namespace lockstep {

/// Returns gpt_preset(name), or the model in a file if the name ends with .json. Throws Error(usage) with one sentence,
/// also for an option in the file that no operation here supports.
GptConfig find_model(const std::string& name);

/// Returns the model that such a text describes; `path` is for messages.
GptConfig parse_model(const std::string& text, const std::string& path);
/// Returns such a text for a model. Throws Error(usage) if its block is neither GPT-2's nor Llama's.
std::string model_text(const GptConfig& model);

/// Describes how a model's block differs from GPT-2's: ", RMSNorm, rotary positions of base 500000, SwiGLU 176 wide, 2
/// key-value heads, no biases"; "" if it does not.
std::string describe_architecture(const GptConfig& model);

}  // namespace lockstep
