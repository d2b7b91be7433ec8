// A checkpoint's table of contents: which step, of which model, which files with which checksums hold which part of
// it. Text, a line each; its last line is the checksum of those before.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/gpt/checkpoint/pieces.hpp"

namespace lockstep::checkpoint {

/// Arrays of fp32 that a shard has of each element, in this order: AdamW's state. A shard's file is these arrays, each
/// as long as the shard has elements, little-endian, and nothing else.
inline constexpr std::size_t kArrays = 3;  // master values, m, v

/// One rank's file.
struct Shard {
  std::string file;  // in the checkpoint's directory
  std::size_t elements = 0;
  std::uint32_t crc = 0;
  std::vector<Piece> pieces;

  std::size_t bytes() const { return elements * kArrays * sizeof(float); }
};

struct Manifest {
  int step = 0;                              // done
  std::map<std::string, std::string> facts;  // what else a run needs to go on: one line each, by a name without spaces
  std::vector<Tensor> tensors;
  std::vector<Shard> shards;
};

std::string shard_text(const Shard& shard);
std::string manifest_text(const Manifest& manifest);
/// Throws Error(usage), "…: its manifest …", where the text was altered or makes no sense; `path` is what it is called.
Manifest parse_manifest(const std::string& text, const std::string& path);
/// Of one shard_text.
Shard parse_shard(const std::string& text, const std::string& path);

}  // namespace lockstep::checkpoint
