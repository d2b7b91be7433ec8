// safetensors, the file in which weights travel between programs: eight bytes that say how long the header is, a JSON
// header with each tensor's name, type, shape and place, then the numbers, little-endian. The format is Hugging Face's
// (github.com/huggingface/safetensors).
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace lockstep::checkpoint {

/// A tensor of any program, row-major; `shape` may be empty (one number).
struct NamedTensor {
  std::string name;
  std::vector<std::size_t> shape;
  std::vector<float> values;
};

/// The bytes of a file with these tensors in fp32, in this order. `facts` become its "__metadata__".
std::string safetensors_text(const std::vector<NamedTensor>& tensors, const std::map<std::string, std::string>& facts);

/// All tensors of such a file, in the order of their places: F32, F16 and BF16 become fp32, and of other types (masks,
/// counters) only name and shape are kept. Throws Error(usage) in one sentence that begins with `path` where the text
/// is none, was cut short, or its tensors overlap or leave gaps.
std::vector<NamedTensor> parse_safetensors(const std::string& text, const std::string& path);

}  // namespace lockstep::checkpoint
