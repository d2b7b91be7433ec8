#include "tools/train/checkpoint.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>

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

Checkpoint read_checkpoint(const std::string& path, const GptConfig& config) {
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse(path, "cannot be read");
  Checkpoint checkpoint;
  std::string magic;
  std::size_t count = 0;
  std::getline(file, magic);
  if (magic != kMagic) refuse(path, "this is no checkpoint");
  std::getline(file, checkpoint.model);
  if (checkpoint.model != describe_model(config))
    refuse(path, fmt::format("holds a model of {}, not of {}", checkpoint.model, describe_model(config)));
  file >> checkpoint.step >> count >> checkpoint.loss_scale >> checkpoint.good_steps >> checkpoint.skipped;
  file.ignore(2);
  if (!file || count != config.parameters() || checkpoint.step < 0) refuse(path, "its header is damaged");
  get(file, checkpoint.values, count);
  get(file, checkpoint.m, count);
  get(file, checkpoint.v, count);
  if (!file || file.peek() != std::ifstream::traits_type::eof())
    refuse(path, "it is cut short or has something after its end");
  return checkpoint;
}

Checkpoint take_checkpoint(Rank me, const Gpt& gpt, const Optimizer& optimizer, const week22::LossScaler* scaler) {
  Checkpoint checkpoint{optimizer.steps(), describe_model(gpt.config()), to_host(me, optimizer.master()),
                        to_host(me, optimizer.m()), to_host(me, optimizer.v())};
  if (!scaler) return checkpoint;
  checkpoint.loss_scale = read(me, scaler->scale, 0);
  checkpoint.good_steps = static_cast<int>(read(me, scaler->good_steps, 0));
  checkpoint.skipped = static_cast<int>(read(me, scaler->skipped, 0));
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
