#include "tools/train/rate.hpp"

#include <fmt/format.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include "common/support/host/host.hpp"
#include "tools/train/published_flop.hpp"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

/// A processor's peak in a machine file is a measurement, a GPU's the vendor's.
constexpr double kLeastGpu = 5e12;

double sheet_peak(const Machine& machine, DType type) {
  const double peak = machine.peak(type);
  return peak >= kLeastGpu ? peak : NAN;
}

/// A machine file of ours with the data sheet of a GPU, and the words by which the driver calls that GPU; the longer
/// names first.
struct Model {
  const char* words;
  const char* machine;
};
constexpr Model kModels[] = {{"H100 PCIe", "h100-pcie-pair"},
                             {"H200", "dgx-h200"},
                             {"H100", "dgx-h100"},
                             {"B200", "dgx-b200"},
                             {"A100", "dgx-a100"},
                             {"V100", "dgx-1v"}};

/// The models of this computer's GPUs, as the driver says in /proc.
std::set<std::string> gpu_models(const std::string& root) {
  std::set<std::string> models;
  std::error_code none;
  for (const auto& gpu : fs::directory_iterator(root + "/proc/driver/nvidia/gpus", none)) {
    std::ifstream in(gpu.path() / "information");
    for (std::string line; std::getline(in, line);)
      if (line.starts_with("Model:")) models.insert(line.substr(line.find_first_not_of(" \t", 6)));
  }
  return models;
}

/// True if the name contains `words` as whole words: an A1000 is no A100, a GH200 no H200. Cards called NVL are slower.
bool is_called(const std::string& name, const std::string& words) {
  const auto letter = [&](std::size_t at) {
    return at < name.size() && std::isalnum(static_cast<unsigned char>(name[at]));
  };
  const std::size_t at = name.find(words);
  return at != std::string::npos && !(at > 0 && letter(at - 1)) && !letter(at + words.size()) &&
         name.find("NVL") == std::string::npos;
}

/// The machine file with the data sheet of this computer's GPUs; none if they are unknown, or of different models.
std::optional<Machine> gpu_machine(const std::string& root) {
  const std::set<std::string> models = gpu_models(root);
  if (models.size() != 1) return {};
  for (const Model& model : kModels)
    if (is_called(*models.begin(), model.words))
      return read_machine(fmt::format(LOCKSTEP_SOURCE_DIR "/bench/machines/{}.json", model.machine));
  return {};
}

/// This computer as ./lab calibrate has measured it: with processes, which compute as a single one does.
std::optional<Machine> calibrated_machine() {
  const std::string file = machine_file_of_host(LOCKSTEP_SOURCE_DIR, "mpi");
  return fs::exists(file) ? std::optional(read_machine(file)) : std::nullopt;
}

double fastest_product(const Machine& machine) {
  double best = NAN;
  for (const ProductPrice& product : machine.measured.products)
    best = std::fmax(best, 2 * product.m * product.nk / product.seconds);
  if (std::isfinite(best)) return best;
  return machine.peak(DType::f32) * machine.matmul_efficiency(1e15);
}

bool has_gpus(const std::string& backend) { return backend == "cuda" || backend == "nccl"; }

/// The machine that a run is compared with: the one that its times are of, this computer's GPUs, or its processor; none
/// if that is not known.
std::optional<Machine> machine_of(const TrainPlan& plan, const std::string& backend, bool modelled,
                                  const std::string& root) {
  if (modelled) return plan.run.machine;
  if (!has_gpus(backend)) return calibrated_machine();
  return plan.run.tf32 ? std::nullopt : gpu_machine(root);
}

}  // namespace

Baseline baseline_of(const TrainPlan& plan, const std::string& backend, bool modelled, const std::string& root) {
  const std::optional<Machine> machine = machine_of(plan, backend, modelled, root);
  if (!machine) return {};
  if (modelled || has_gpus(backend)) return {.peak = sheet_peak(*machine, plan.step.model.storage)};
  return {.product = fastest_product(*machine)};
}

Roofs roofs_of(const TrainPlan& plan, const std::string& backend, bool modelled, const std::string& root) {
  const std::optional<Machine> machine = machine_of(plan, backend, modelled, root);
  if (!machine) return {};
  const double peak = machine->peak(plan.step.model.storage);
  return {modelled || has_gpus(backend) ? peak : fastest_product(*machine), machine->memory_bytes_per_second};
}

Rate rate_of(const TrainPlan& plan, double seconds, const Baseline& baseline) {
  const double flop = published_flop(plan.step) / plan.run.ranks / seconds;
  return {flop, flop / baseline.peak, flop / baseline.product};
}

std::string rate_line(const Rate& rate) {
  if (!std::isfinite(rate.flop_per_second)) return "";
  const bool tera = rate.flop_per_second >= 1e12;
  std::string line = fmt::format("rate      {:.3g} {}FLOP/s per rank, of the model as PaLM counts",
                                 rate.flop_per_second / (tera ? 1e12 : 1e9), tera ? 'T' : 'G');
  if (std::isfinite(rate.mfu)) line += fmt::format(": {:.1f}% of the GPU's peak (MFU)", 100 * rate.mfu);
  if (std::isfinite(rate.product_share))
    line += fmt::format(": {:.1f}% of the fastest fp32 product that ./lab calibrate measured here",
                        100 * rate.product_share);
  return line + "\n";
}

}  // namespace lockstep::train
