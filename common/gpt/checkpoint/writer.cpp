#include "common/gpt/checkpoint/writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "common/error.hpp"
#include "common/gpt/checkpoint/crc32c.hpp"
#include "common/gpt/checkpoint/reader.hpp"

namespace lockstep::checkpoint {

namespace {

constexpr std::string_view kAttempt = ".tmp-";

std::string entry_path(const std::string& attempt, int rank) { return fmt::format("{}/rank-{}.entry", attempt, rank); }

std::string_view bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

}  // namespace

std::string step_path(const std::string& directory, int step) { return fmt::format("{}/step-{:08}", directory, step); }

std::string attempt_path(const std::string& directory, int step, unsigned attempt) {
  return fmt::format("{}{}{}", step_path(directory, step), kAttempt, attempt);
}

void remove_leftovers(Files& files, const std::string& directory) {
  for (const std::string& name : files.list(directory))
    if (name.starts_with("step-") && name.find(kAttempt) != name.npos) files.remove(directory + "/" + name);
}

void set_aside_after(Files& files, const std::string& directory, int step) {
  for (const int later : steps_in(files, directory)) {
    if (later <= step) continue;
    const std::string path = step_path(directory, later), aside = path + ".aside";
    files.remove(aside);
    files.rename(path, aside);
    files.sync_directory(directory);
  }
}

std::string begin(Files& files, const std::string& directory, int step, unsigned attempt) {
  const std::string path = attempt_path(directory, step, attempt);
  files.make_directory(path);
  const std::string parent = std::filesystem::path(directory).parent_path().string();
  files.sync_directory(parent.empty() ? "." : parent);
  return path;
}

void write_share(Files& files, const std::string& attempt, int rank, const Share& share) {
  for (const auto& array : share.arrays)
    if (!std::all_of(array.begin(), array.end(), [](float value) { return std::isfinite(value); }))
      throw Error(Verdict::fail, kNotFinite);
  Shard shard{fmt::format("rank-{}.f32", rank), share.arrays[0].size(), 0, share.pieces};
  const auto& [values, m, v] = share.arrays;
  for (const auto& array : share.arrays) shard.crc = crc32c(bytes_of(array), shard.crc);
  files.write(attempt + "/" + shard.file, {bytes_of(values), bytes_of(m), bytes_of(v)});
  const std::string entry = entry_path(attempt, rank);
  files.write(entry + ".part", {shard_text(shard)});
  files.rename(entry + ".part", entry);  // from now on rank 0 may rename the directory
}

int ranks_written(Files& files, const std::string& attempt, int ranks) {
  int written = 0;
  for (int rank = 0; rank < ranks; ++rank) written += files.exists(entry_path(attempt, rank)) ? 1 : 0;
  return written;
}

void commit(Files& files, const std::string& directory, const std::string& attempt, Manifest head, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string entry = entry_path(attempt, rank);
    head.shards.push_back(parse_shard(files.read(entry), entry));
    files.remove(entry);
  }
  files.write(manifest_path(attempt), {manifest_text(head)});
  files.sync_directory(attempt);
  const std::string path = step_path(directory, head.step);
  if (files.exists(path)) {  // a rejected one, or one of a run that diverged from this
    files.rename(path, attempt + "-replaced");
    files.rename(attempt, path);
    files.sync_directory(directory);
    files.remove(attempt + "-replaced");
    return;
  }
  files.rename(attempt, path);
  files.sync_directory(directory);
}

void prune(Files& files, const std::string& directory, int step, int keep) {
  for (const int old : steps_in(files, directory)) {
    if (old > step || keep-- > 0) continue;
    // Rename first: half of a checkpoint must not look like a checkpoint.
    const std::string path = step_path(directory, old), away = path + std::string(kAttempt) + "old";
    files.rename(path, away);
    files.sync_directory(directory);
    files.remove(away);
  }
}

}  // namespace lockstep::checkpoint
