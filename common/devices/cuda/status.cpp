#include "common/devices/cuda/status.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>

namespace lockstep::cuda {

std::string place() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) name = {"?"};
  int gpu = 0;
  if (cudaGetDevice(&gpu) != cudaSuccess) {
    (void)cudaGetLastError();
    return fmt::format("host {}", name.data());
  }
  return fmt::format("host {}, GPU {}", name.data(), gpu);
}

void check(cudaError_t status, const char* call, Location where) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // clears it, so that the next check does not find this error
  throw Error(
      Verdict::fail,
      fmt::format("{}: {} ({}, at {}:{})", call, cudaGetErrorString(status), place(),
                  std::string_view(where.file_name()).substr(std::string_view(where.file_name()).rfind('/') + 1),
                  where.line()));
}

}  // namespace lockstep::cuda
