// The context of results: this computer, this build, and the current time.
#include <fmt/core.h>

#include <array>
#include <ctime>
#include <fstream>

#include "common/support/host/host.hpp"
#include "common/support/json/results.hpp"
#include "common/support/json/whose_code.hpp"

namespace lockstep {
namespace {

/// Reads the commit from a file of its own, which the build writes: a new commit recompiles nothing.
std::string read_commit() {
  std::ifstream in(LOCKSTEP_COMMIT_FILE);
  std::string line;
  return std::getline(in, line) && !line.empty() ? line : "unknown";
}

std::string utc_now() {
  std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

}  // namespace

Context Context::here() {
  Host host = read_host();
  std::string fmt_version = std::to_string(FMT_VERSION / 10000) + "." + std::to_string(FMT_VERSION / 100 % 100) + "." +
                            std::to_string(FMT_VERSION % 100);
  return {.machine = host.processor,
          .cores = host.usable_cores,
          .hardware_threads = host.hardware_threads,
          .compiler = LOCKSTEP_COMPILER,
          .build = LOCKSTEP_BUILD_TYPE,
          .versions = {{"lockstep", LOCKSTEP_VERSION}, {"fmt", fmt_version}},
          .commit = read_commit(),
          .date = utc_now(),
          .code = whose_code()};
}

namespace {
std::string& code() {
  static std::string code = "reference";
  return code;
}
}  // namespace

const std::string& whose_code() { return code(); }

WhoseCode::WhoseCode(const char* text) { code() = text; }

}  // namespace lockstep
