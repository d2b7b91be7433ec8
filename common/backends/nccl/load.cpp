#include "common/backends/nccl/load.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace lockstep::nccl {

namespace {

/// The number in an environment variable, if it is at least 1; otherwise `otherwise`.
int number_in(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  if (!text) return otherwise;
  const std::string_view digits = text;
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc{} && value >= 1 ? value : otherwise;
}

}  // namespace

int most_ctas() { return number_in("NCCL_MAX_CTAS", kMostCtas); }

int hardware_channels() { return std::min(number_in("CUDA_DEVICE_MAX_CONNECTIONS", 8), 32); }

ncclConfig_t configuration() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.splitShare = 0;
  config.maxCTAs = most_ctas();
  return config;
}

std::string Load::words() const {
  return fmt::format(
      "{} communicator{} of at most {} CTAs: {} of {} multiprocessors while all spin; {} streams in {} hardware "
      "channels",
      communicators, communicators == 1 ? "" : "s", ctas, busy(), multiprocessors, streams, channels);
}

std::string Load::warning() const {
  std::string text;
  if (busy() >= multiprocessors)
    text += fmt::format(
        "NCCL: {} communicators of at most {} CTAs can fill all {} multiprocessors of a GPU with kernels that wait for "
        "arithmetic, which then cannot begin. Set NCCL_MAX_CTAS={} to leave some free\n",
        communicators, ctas, multiprocessors, std::max(1, (multiprocessors - 1) / communicators));
  if (streams > channels)
    text +=
        fmt::format("CUDA: {} streams share {} hardware channels, so one can be held up behind another that waits{}\n",
                    streams, channels, channels < 32 ? ". Set CUDA_DEVICE_MAX_CONNECTIONS=32 for more" : "");
  return text;
}

}  // namespace lockstep::nccl
