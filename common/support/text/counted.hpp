// A number of things, in words.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <string>

namespace lockstep {

/// "1 microbatch", "2 microbatches", "3 features per rank", "2 positions of a chunk": `unit` is of one.
std::string counted(std::integral auto count, std::string unit) {
  if (count != 1) {
    const std::size_t noun = std::min({unit.find(" per "), unit.find(" of "), unit.size()});
    unit.insert(noun, unit.substr(0, noun).ends_with("ch") || unit.substr(0, noun).ends_with("ss") ? "es" : "s");
  }
  return fmt::format("{} {}", count, unit);
}

}  // namespace lockstep
