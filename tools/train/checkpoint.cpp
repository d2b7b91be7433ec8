#include "tools/train/checkpoint.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <span>

namespace lockstep::train {

namespace {

constexpr std::string_view kMagic = "lockstep checkpoint 2";

// A text header (magic, model; step, number of values, loss scale, good and skipped steps; then an empty line) and
// three arrays of little-endian fp32.
void put(std::ofstream& file, const std::vector<float>& values) {
  file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(float)));
}

void get(std::ifstream& file, std::vector<float>& values, std::size_t count) {
  values.resize(count);
  file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(count * sizeof(float)));
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(Verdict::usage, fmt::format("checkpoint {}: {}", path, why));
}

}  // namespace

std::string describe_model(const GptConfig& c) {
  return fmt::format("{} layers, {} heads, d_model {}, vocabulary {}, context {}, {} head", c.layers, c.heads,
                     c.d_model, c.vocabulary, c.context, c.tied_head ? "tied" : "untied");
}

void write_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  const std::string temporary = path + ".tmp";
  {
    std::ofstream file(temporary, std::ios::binary);
    file << kMagic << '\n'
         << checkpoint.model << '\n'
         << checkpoint.step << ' ' << checkpoint.values.size() << ' ' << checkpoint.loss_scale << ' '
         << checkpoint.good_steps << ' ' << checkpoint.skipped << "\n\n";
    put(file, checkpoint.values);
    put(file, checkpoint.m);
    put(file, checkpoint.v);
    file.flush();
    if (!file) {
      std::remove(temporary.c_str());
      refuse(path, "cannot be written");
    }
  }
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  if (error) refuse(path, "cannot be written: " + error.message());
}

namespace {

/// Of `model`, in words, with `elements` of each kind.
Checkpoint read_file(const std::string& path, const std::string& model, std::size_t elements) {
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse(path, "cannot be read");
  Checkpoint checkpoint;
  std::string magic;
  std::size_t count = 0;
  std::getline(file, magic);
  if (magic != kMagic) refuse(path, "this is no checkpoint");
  std::getline(file, checkpoint.model);
  if (checkpoint.model != model) refuse(path, fmt::format("holds a model of {}, not of {}", checkpoint.model, model));
  file >> checkpoint.step >> count >> checkpoint.loss_scale >> checkpoint.good_steps >> checkpoint.skipped;
  file.ignore(2);
  if (!file || count != elements || checkpoint.step < 0) refuse(path, "its header is damaged");
  get(file, checkpoint.values, count);
  get(file, checkpoint.m, count);
  get(file, checkpoint.v, count);
  if (!file || file.peek() != std::ifstream::traits_type::eof())
    refuse(path, "it is cut short or has something after its end");
  return checkpoint;
}

std::string describe_share(const GptConfig& config, const ShareOf& share) {
  return fmt::format("{}; ZeRO-{}, wrapped by {}: the share of rank {} of {}", describe_model(config), share.stage,
                     share.wrap, share.rank, share.ranks);
}

void keep_scale(Rank me, Checkpoint& checkpoint, const week22::LossScaler& scaler) {
  checkpoint.loss_scale = read(me, scaler.scale, 0);
  checkpoint.good_steps = static_cast<int>(read(me, scaler.good_steps, 0));
  checkpoint.skipped = static_cast<int>(read(me, scaler.skipped, 0));
}

}  // namespace

Checkpoint read_checkpoint(const std::string& path, const GptConfig& config) {
  return read_file(path, describe_model(config), config.parameters());
}

std::string share_path(const std::string& path, int rank) { return fmt::format("{}.rank{}", path, rank); }

Checkpoint read_share(const std::string& path, const GptConfig& config, const ShareOf& share) {
  const std::string file = share_path(path, share.rank);
  if (!std::filesystem::exists(file))
    refuse(file, fmt::format("there is no share of rank {} of {}: shares fit only as many ranks as wrote them",
                             share.rank, share.ranks));
  return read_file(file, describe_share(config, share), share.elements);
}

Checkpoint take_share(Rank me, const GptConfig& config, const ShareOf& share, const std::vector<Optimizer*>& optimizers,
                      const week22::LossScaler* scaler) {
  Checkpoint checkpoint{optimizers.front()->steps(), describe_share(config, share), {}, {}, {}};
  const auto append = [&](std::vector<float>& all, const Slice& part) {
    const std::vector<float> values = to_host(me, part);
    all.insert(all.end(), values.begin(), values.end());
  };
  for (const Optimizer* optimizer : optimizers) {
    append(checkpoint.values, optimizer->master());
    append(checkpoint.m, optimizer->m());
    append(checkpoint.v, optimizer->v());
  }
  if (scaler) keep_scale(me, checkpoint, *scaler);
  return checkpoint;
}

void restore_share(Rank me, const std::vector<Optimizer*>& optimizers, const Checkpoint& checkpoint) {
  std::size_t at = 0;
  for (Optimizer* optimizer : optimizers) {
    const std::size_t count = optimizer->m().size();
    const auto put_back = [&](const Slice& slice, const std::vector<float>& all) {
      upload(me, slice, std::span(all).subspan(at, count));
    };
    put_back(optimizer->master(), checkpoint.values);
    put_back(optimizer->m(), checkpoint.m);
    put_back(optimizer->v(), checkpoint.v);
    optimizer->resume(me, checkpoint.step);
    at += count;
  }
}

Checkpoint take_checkpoint(Rank me, const Gpt& gpt, const Optimizer& optimizer, const week22::LossScaler* scaler) {
  Checkpoint checkpoint{optimizer.steps(), describe_model(gpt.config()), to_host(me, optimizer.master()),
                        to_host(me, optimizer.m()), to_host(me, optimizer.v())};
  if (scaler) keep_scale(me, checkpoint, *scaler);
  return checkpoint;
}

void restore(Rank me, Optimizer& optimizer, const Checkpoint& checkpoint) {
  upload(me, optimizer.master(), checkpoint.values);
  upload(me, optimizer.m(), checkpoint.m);
  upload(me, optimizer.v(), checkpoint.v);
  optimizer.resume(me, checkpoint.step);
}

void restore(Rank me, week22::LossScaler& scaler, const Checkpoint& checkpoint) {
  if (checkpoint.loss_scale == 0) return;
  fill(me, scaler.scale, checkpoint.loss_scale);
  fill(me, scaler.inverse, 1 / checkpoint.loss_scale);
  fill(me, scaler.good_steps, static_cast<float>(checkpoint.good_steps));
  fill(me, scaler.skipped, static_cast<float>(checkpoint.skipped));
}

}  // namespace lockstep::train
