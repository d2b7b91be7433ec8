#include <fmt/format.h>

#include "common/devices/cuda/attention_library.hpp"

namespace lockstep::cuda {

namespace {

bool aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

/// Layout of rows of `row` elements, one for each position of each sequence; the tensor's heads begin at element
/// `offset` of each row.
TensorLayout in_rows(const AttentionKey& key, std::size_t heads, std::size_t row, std::size_t offset) {
  const auto size = [](std::size_t n) { return static_cast<std::int64_t>(n); };
  return {offset,
          {size(key.batch), size(heads), size(key.positions), size(key.head_size)},
          {size(key.positions * row), size(key.head_size), size(row), 1}};
}

}  // namespace

AttentionLayout layout_of(const AttentionKey& key) {
  const std::size_t d = key.head_size, row = (key.heads + 2 * key.kv_heads) * d;
  const auto batch = static_cast<std::int64_t>(key.batch), heads = static_cast<std::int64_t>(key.heads),
             positions = static_cast<std::int64_t>(key.positions);
  return {.q = in_rows(key, key.heads, row, 0),
          .k = in_rows(key, key.kv_heads, row, key.heads * d),
          .v = in_rows(key, key.kv_heads, row, (key.heads + key.kv_heads) * d),
          .y = in_rows(key, key.heads, key.heads * d, 0),
          .log_sums = {0, {batch, heads, positions, 1}, {heads * positions, positions, 1, 1}}};
}

std::string unsuitable(const AttentionCall& call) {
  if (call.key.dtype != DType::bf16 && call.key.dtype != DType::f16)
    return fmt::format("elements are {}, not bf16 or fp16", to_string(call.key.dtype));
  if (call.key.head_size % 8 != 0) return fmt::format("heads of {}, not a multiple of 8", call.key.head_size);
  for (const void* data : {call.qkv, call.y, call.log_sums, call.dy, call.dqkv})
    if (!aligned(data)) return "a slice that does not begin at a multiple of 16 bytes";
  return "";
}

}  // namespace lockstep::cuda
