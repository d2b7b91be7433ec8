// A checkpoint's table of contents: its step and model, and which files, with which checksums, hold which part of the
// model. It is text, one entry per line; the last line is the checksum of the lines before it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/gpt/checkpoint/pieces.hpp"

namespace lockstep::checkpoint {

/// Arrays of fp32 in a shard: AdamW's state, in this order. A shard's file holds these arrays, each with one element
/// per element of the shard, little-endian, and nothing else.
inline constexpr std::size_t kArrays = 3;  // master values, m, v

/// The file of one rank.
struct Shard {
  std::string file;  // relative to the checkpoint's directory
  std::size_t elements = 0;
  std::uint32_t crc = 0;
  std::vector<Piece> pieces;

  std::size_t bytes() const { return elements * kArrays * sizeof(float); }
};

struct Manifest {
  int step = 0;                              // steps completed
  std::map<std::string, std::string> facts;  // whatever else a run needs to resume: one line each, by a name without
                                             // spaces
  std::vector<Tensor> tensors;
  std::vector<Shard> shards;
};

std::string shard_text(const Shard& shard);
std::string manifest_text(const Manifest& manifest);
/// Throws Error(usage), "…: its manifest …", if the text was altered or is malformed. `path` names it in the message.
Manifest parse_manifest(const std::string& text, const std::string& path);
/// The inverse of shard_text.
Shard parse_shard(const std::string& text, const std::string& path);

}  // namespace lockstep::checkpoint
