#include "common/gpt/checkpoint/manifest.hpp"

#include <fmt/format.h>

#include <sstream>

#include "common/error.hpp"
#include "common/gpt/checkpoint/crc32c.hpp"

namespace lockstep::checkpoint {

namespace {

constexpr std::string_view kMagic = "lockstep checkpoint 3\n";
constexpr std::string_view kLast = "crc32c ";

class Reader {
 public:
  explicit Reader(std::string path) : path_(std::move(path)) {}

  Manifest read(std::string_view lines) {
    read_lines(lines);
    if (step_ < 0) refuse("names no step");
    manifest_.step = step_;
    for (const Shard& shard : manifest_.shards) check(shard);
    return std::move(manifest_);
  }
  Shard read_shard(std::string_view lines) {
    read_lines(lines);
    if (manifest_.shards.size() != 1) refuse("has no entry for one file");
    return std::move(manifest_.shards[0]);
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(Verdict::usage, fmt::format("{}: its manifest {}", path_, why));
  }

 private:
  void read_lines(std::string_view lines) {
    std::istringstream text{std::string(lines)};
    for (std::string line; std::getline(text, line);) read_line(line);
  }
  void read_line(const std::string& line) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    bool more = false;  // the rest of the line is one value
    if (kind == "step") {
      words >> step_;
    } else if (kind == "fact") {
      std::string name;
      words >> name >> std::ws;
      std::getline(words, manifest_.facts[name]);
      more = true;
    } else if (kind == "tensor") {
      Tensor& tensor = manifest_.tensors.emplace_back();
      words >> tensor.name >> tensor.rows >> tensor.columns;
    } else if (kind == "shard") {
      Shard& shard = manifest_.shards.emplace_back();
      words >> shard.file >> shard.elements >> std::hex >> shard.crc;
    } else if (kind == "piece" && !manifest_.shards.empty()) {
      Piece& p = manifest_.shards.back().pieces.emplace_back();
      words >> p.tensor >> p.row >> p.rows >> p.column >> p.columns >> p.at >> p.stride;
    } else {
      refuse(fmt::format("has a line that begins with '{}'", kind));
    }
    std::string rest;
    if (!more && (!words || words >> rest)) refuse(fmt::format("has a wrong line '{}'", line));
  }

  static bool fits(std::size_t first, std::size_t count, std::size_t all) {
    return first <= all && count <= all - first;
  }

  /// Checks that every piece lies within its tensor and within the file.
  void check(const Shard& shard) const {
    if (shard.file.find('/') != shard.file.npos) refuse(fmt::format("names the file {}", shard.file));
    for (const Piece& p : shard.pieces) {
      const bool good = p.tensor < manifest_.tensors.size() && fits(p.row, p.rows, manifest_.tensors[p.tensor].rows) &&
                        fits(p.column, p.columns, manifest_.tensors[p.tensor].columns) && p.rows > 0 &&
                        p.stride <= shard.elements && p.stride >= p.columns && p.rows <= shard.elements &&
                        fits(p.at, (p.rows - 1) * p.stride + p.columns, shard.elements);
      if (!good) refuse(fmt::format("has a piece of {} that does not fit", shard.file));
    }
  }

  std::string path_;
  Manifest manifest_;
  int step_ = -1;
};

}  // namespace

std::string shard_text(const Shard& shard) {
  std::string text = fmt::format("shard {} {} {:08x}\n", shard.file, shard.elements, shard.crc);
  for (const Piece& p : shard.pieces)
    text += fmt::format("piece {} {} {} {} {} {} {}\n", p.tensor, p.row, p.rows, p.column, p.columns, p.at, p.stride);
  return text;
}

std::string manifest_text(const Manifest& manifest) {
  std::string text = fmt::format("{}step {}\n", kMagic, manifest.step);
  for (const auto& [name, value] : manifest.facts) text += fmt::format("fact {} {}\n", name, value);
  for (const Tensor& tensor : manifest.tensors)
    text += fmt::format("tensor {} {} {}\n", tensor.name, tensor.rows, tensor.columns);
  for (const Shard& shard : manifest.shards) text += shard_text(shard);
  return text + fmt::format("{}{:08x}\n", kLast, crc32c(text));
}

Manifest parse_manifest(const std::string& text, const std::string& path) {
  Reader reader(path);
  if (!text.starts_with(kMagic)) reader.refuse("is not one of this version");
  const std::size_t last = text.rfind(kLast);
  if (last == text.npos) reader.refuse("is cut short");
  const std::string_view lines = std::string_view(text).substr(0, last);
  if (text.substr(last) != fmt::format("{}{:08x}\n", kLast, crc32c(lines)))
    reader.refuse("was cut short or altered: its checksum differs");
  return reader.read(lines.substr(kMagic.size()));
}

Shard parse_shard(const std::string& text, const std::string& path) { return Reader(path).read_shard(text); }

}  // namespace lockstep::checkpoint
