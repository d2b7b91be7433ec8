#include "common/gpt/checkpoint/reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "common/error.hpp"
#include "common/gpt/checkpoint/crc32c.hpp"
#include "common/support/text/parse_number.hpp"

namespace lockstep::checkpoint {

namespace {

constexpr std::string_view kStep = "step-";

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(Verdict::usage, fmt::format("{} {}", path, why));
}

/// Reads a shard's file and checks that it is as written.
std::string read_whole(Files& files, const std::string& checkpoint, const Shard& shard) {
  const std::string path = checkpoint + "/" + shard.file;
  if (!files.exists(path)) refuse(path, "is missing");
  std::string bytes = files.read(path);
  if (bytes.size() != shard.bytes())
    refuse(path, fmt::format("was cut short or added to: it has {} bytes, not {}", bytes.size(), shard.bytes()));
  if (const std::uint32_t crc = crc32c(bytes); crc != shard.crc)
    refuse(path, fmt::format("was altered: its checksum is {:08x}, not {:08x}", crc, shard.crc));
  return bytes;
}

}  // namespace

std::string manifest_path(const std::string& checkpoint) { return checkpoint + "/manifest"; }

std::vector<int> steps_in(Files& files, const std::string& directory) {
  std::vector<int> steps;
  for (const std::string& name : files.list(directory)) {
    if (!name.starts_with(kStep)) continue;
    if (const auto step = parse_number<int>(std::string_view(name).substr(kStep.size()))) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end(), std::greater<>());
  return steps;
}

Manifest read_manifest(Files& files, const std::string& checkpoint) {
  const std::string path = manifest_path(checkpoint);
  if (!files.exists(path)) refuse(path, "is missing: this is not a checkpoint");
  return parse_manifest(files.read(path), checkpoint);
}

void read_share(Files& files, const std::string& checkpoint, const Manifest& manifest, std::size_t elements,
                Share& share, std::size_t arrays) {
  for (std::size_t k = 0; k < arrays; ++k) share.arrays[k].assign(elements, 0);
  std::size_t missing = elements_of(share.pieces);
  for (const Shard& shard : manifest.shards) {
    const std::vector<RowCopy> rows = common_rows(shard.pieces, share.pieces);
    if (rows.empty()) continue;
    const std::string bytes = read_whole(files, checkpoint, shard);
    for (const RowCopy& row : rows) {
      for (std::size_t k = 0; k < arrays; ++k)
        std::memcpy(share.arrays[k].data() + row.to, bytes.data() + (k * shard.elements + row.from) * sizeof(float),
                    row.elements * sizeof(float));
      missing -= std::min(missing, row.elements);
    }
  }
  if (missing > 0) refuse(checkpoint, fmt::format("lacks {} elements of the model", missing));
}

}  // namespace lockstep::checkpoint
