// libFuzzer's entry points. Which target: LOCKSTEP_FUZZ_TARGET. Run by .ci/fuzz.sh.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tools/fuzz/targets.hpp"

namespace {

const lockstep::fuzz::Target& chosen() {
  const char* name = std::getenv("LOCKSTEP_FUZZ_TARGET");
  for (const lockstep::fuzz::Target& target : lockstep::fuzz::targets())
    if (name && target.name == name) return target;
  std::fprintf(stderr, "LOCKSTEP_FUZZ_TARGET is one of:");
  for (const lockstep::fuzz::Target& target : lockstep::fuzz::targets())
    std::fprintf(stderr, " %s", std::string(target.name).c_str());
  std::fprintf(stderr, "\n");
  std::exit(2);
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer calls this name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const lockstep::fuzz::Target& target = chosen();
  const std::string fault = lockstep::fuzz::fault(target, std::string(reinterpret_cast<const char*>(data), size));
  if (fault.empty()) return 0;
  std::fprintf(stderr, "%s\n", fault.c_str());
  std::abort();
}
