// Weights that other programs read and write: safetensors files with the names and shapes of GPT-2, and of
// Llama, in Hugging Face's transformers.
#pragma once

#include <string>
#include <vector>

#include "common/gpt/checkpoint/files.hpp"
#include "common/gpt/checkpoint/safetensors.hpp"
#include "common/gpt/model/config.hpp"

namespace lockstep::train {

/// A model's flat fp32 values (Parameters::values of the serial model) as transformers' tensors, GPT-2's or Llama's,
/// and back. A file may lack the prefix ("transformer.", "model."), also hold masks and rotary speeds, and repeat a
/// tied head. Throws Error(usage) in one sentence that begins with `path` where a tensor is missing, has another shape,
/// or is of no use here.
std::vector<checkpoint::NamedTensor> exported_tensors(const GptConfig& model, const std::vector<float>& values);
std::vector<float> imported_values(const GptConfig& model, const std::vector<checkpoint::NamedTensor>& tensors,
                                   const std::string& path);

/// Reads a safetensors file for this model.
std::vector<float> read_weights(const GptConfig& model, const std::string& path);

/// ./lab export CHECKPOINT OUT: the weights of a checkpoint (of the last one where the directory has several), written
/// in whichever layout, as OUT.safetensors; or, where OUT has no such ending, as the folder OUT with model.safetensors
/// and config.json, which transformers loads as it stands. Returns a line that says what was written.
std::string export_weights(checkpoint::Files& files, std::string checkpoint, const std::string& out);

}  // namespace lockstep::train
