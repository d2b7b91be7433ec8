#include "common/backends/nccl/status.hpp"

#include <fmt/format.h>

#include <chrono>
#include <string_view>
#include <thread>

#include "common/devices/cuda/status.hpp"

namespace lockstep::nccl {

void check(ncclResult_t status, const char* call, Location where) {
  if (status == ncclSuccess || status == ncclInProgress) return;
  std::string_view file = where.file_name();
  file.remove_prefix(file.rfind('/') + 1);
  const char* last = ncclGetLastError(nullptr);
  throw Error(Verdict::fail, fmt::format("{}: {} ({}, at {}:{}){}{}", call, ncclGetErrorString(status), cuda::place(),
                                         file, where.line(), last && *last ? ": " : "", last ? last : ""));
}

bool is_ready(ncclComm_t handle, const char* call, double seconds, double limit_seconds) {
  ncclResult_t state = ncclSuccess;
  check(ncclCommGetAsyncError(handle, &state), "ncclCommGetAsyncError");
  check(state, call);
  if (state != ncclInProgress) return true;
  if (seconds > limit_seconds)
    throw Error(Verdict::timeout,
                fmt::format("TIMEOUT: {} has been in progress for {:g} s ({}): the ranks do not find each other. "
                            "NCCL_DEBUG=INFO shows how far they get, and NCCL_SOCKET_IFNAME chooses the network",
                            call, limit_seconds, cuda::place()));
  return false;
}

void wait_until_ready(ncclComm_t handle, const char* call, const Limit& limit) {
  using Clock = std::chrono::steady_clock;
  using namespace std::chrono_literals;
  const auto began = Clock::now();
  auto waited = Clock::duration::zero();
  (void)limit.stop();  // throws if the calling thread must not wait
  while (!is_ready(handle, call, std::chrono::duration<double>(waited).count(), limit.seconds)) {
    if (limit.stop()) throw Unwind{};
    // A launch takes about ten microseconds, a connection milliseconds.
    if (waited < 200us)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(waited < 10ms ? 50us : 1000us);
    waited = Clock::now() - began;
  }
}

int library_version() {
  int version = 0;
  check(ncclGetVersion(&version), "ncclGetVersion");
  return version;
}

std::string version_text(int version) {
  const int thousands = version < 10000 ? 1000 : 10000;  // 2.8.4 was 2804, 2.28.9 is 22809
  return fmt::format("{}.{}.{}", version / thousands, version % thousands / 100, version % 100);
}

}  // namespace lockstep::nccl
