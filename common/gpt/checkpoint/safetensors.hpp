// safetensors, a file format for exchanging weights between programs: eight bytes with the length of the header, a JSON
// header with each tensor's name, type, shape and position, then the numbers, little-endian. Defined by Hugging Face
// (github.com/huggingface/safetensors).
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace lockstep::checkpoint {

/// A tensor from any program, row-major; `shape` may be empty (one number).
struct NamedTensor {
  std::string name;
  std::vector<std::size_t> shape;
  std::vector<float> values;
};

/// Returns the bytes of a file with these tensors in fp32, in this order. `facts` become its "__metadata__".
std::string safetensors_text(const std::vector<NamedTensor>& tensors, const std::map<std::string, std::string>& facts);

/// Returns all tensors of such a file, by position. F32, F16 and BF16 become fp32; of other types (masks, counters)
/// only name and shape are kept. Throws Error(usage) with one sentence that begins with `path` if the text is not such
/// a file, was truncated, or has tensors that overlap or leave gaps.
std::vector<NamedTensor> parse_safetensors(const std::string& text, const std::string& path);

}  // namespace lockstep::checkpoint
