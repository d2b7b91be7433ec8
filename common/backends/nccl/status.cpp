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

void wait_until_ready(ncclComm_t handle, const char* call, const Limit& limit) {
  using Clock = std::chrono::steady_clock;
  using namespace std::chrono_literals;
  const auto began = Clock::now();
  while (true) {
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(handle, &state), "ncclCommGetAsyncError");
    if (state != ncclInProgress) return check(state, call);
    if (limit.stop()) throw Unwind{};
    const auto waited = Clock::now() - began;
    if (waited > std::chrono::duration<double>(limit.seconds))
      throw Error(Verdict::timeout,
                  fmt::format("TIMEOUT: {} has been in progress for {:g} s ({}): the ranks do not find each other; "
                              "NCCL_DEBUG=INFO shows how far they come, NCCL_SOCKET_IFNAME names the network",
                              call, limit.seconds, cuda::place()));
    // A launch takes some ten microseconds, a connection milliseconds.
    if (waited < 200us)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(waited < 10ms ? 50us : 1000us);
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
