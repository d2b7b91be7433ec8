#include "common/devices/cuda/slow_paths.hpp"

namespace lockstep::cuda {

namespace {

void say(std::string& text, std::uint64_t count, const char* what) {
  if (count > 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " × " + what;
}

}  // namespace

std::string SlowPaths::words() const {
  std::string text;
  say(text, products_in_fp32, "a product of 16-bit operands in fp32");
  say(text, products_at_odd_places, "a product whose rows do not begin at multiples of 16 bytes");
  say(text, gelus_apart, "GELU apart from its product");
  say(text, attentions_in_loops, "attention without tensor cores");
  say(text, attentions_not_by_library, "attention by our kernels in place of cuDNN's");
  return text.empty() ? "none" : text;
}

SlowPaths& slow_paths() {
  static SlowPaths all;
  return all;
}

}  // namespace lockstep::cuda
