#include "common/nccl/status.hpp"

#include <fmt/format.h>

#include <string_view>

#include "common/cuda/status.hpp"

namespace lockstep::nccl {

void check(ncclResult_t status, const char* call, Location where) {
  if (status == ncclSuccess || status == ncclInProgress) return;
  std::string_view file = where.file_name();
  file.remove_prefix(file.rfind('/') + 1);
  const char* last = ncclGetLastError(nullptr);
  throw Error(Verdict::fail, fmt::format("{}: {} ({}, at {}:{}){}{}", call, ncclGetErrorString(status), cuda::place(),
                                         file, where.line(), last && *last ? ": " : "", last ? last : ""));
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
