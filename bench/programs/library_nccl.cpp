// NCCL's version, and its environment: settings, links between GPUs, network interfaces.
#include <cublas_api.h>
#include <cuda_runtime.h>
#include <fmt/format.h>
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "bench/support/versions.hpp"
#include "common/backends/nccl/session.hpp"
#include "common/backends/nccl/status.hpp"
#include "common/devices/cuda/gpu.hpp"
#include "common/devices/cuda/status.hpp"

namespace lockstep::bench {
namespace {

/// Returns this rank's GPU. Another one must not become current: it would get a context and the subsequent allocations.
cuda::Gpu my_gpu() {
  int mine = 0;
  cuda::check(cudaGetDevice(&mine), "cudaGetDevice");
  return cuda::open_gpu(mine);
}

/// Returns the names of a folder's entries, sorted and separated by blanks.
std::string names_in(const char* folder) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

std::string settings() {
  std::string text;
  for (char** variable = environ; *variable; ++variable)
    if (std::string_view(*variable).starts_with("NCCL_")) text += (text.empty() ? "" : " ") + std::string(*variable);
  return text;
}

/// Returns a line for each GPU of this host: 1 for each other GPU that it reaches directly, over PCIe or NVLink, else
/// 0.
std::string peers() {
  std::string text;
  const int count = cuda::count_gpus();
  for (int from = 0; from < count; ++from) {
    text += fmt::format("{}{}:", from ? "; " : "", from);
    for (int to = 0; to < count; ++to) {
      int reaches = from == to;
      if (from != to) cuda::check(cudaDeviceCanAccessPeer(&reaches, from, to), "cudaDeviceCanAccessPeer");
      text += fmt::format(" {}", reaches);
    }
  }
  return text;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> library_versions() {
  const cuda::Gpu gpu = my_gpu();
  return {{"gpu", gpu.name},
          {"cuda", cuda::version_text(gpu.runtime)},
          {"driver", cuda::version_text(gpu.driver)},
          {"cublaslt", fmt::format("{}.{}.{}", CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH)},
          {"nccl", nccl::version_text(nccl::library_version())}};
}

std::vector<std::pair<std::string, std::string>> surroundings() {
  return {{"binding", nccl::binding_of_this_job()},
          {"gpu_load", nccl::load_of_this_job()},
          {"nccl_settings", settings()},
          {"gpu_peers", peers()},
          {"interfaces", names_in("/sys/class/net")},
          {"infiniband", names_in("/sys/class/infiniband")}};
}

double gpu_memory_bytes() { return static_cast<double>(my_gpu().memory_bytes); }

}  // namespace lockstep::bench
