#include "common/testing/drawn.hpp"

#include "common/testing/options.hpp"

namespace lockstep::testing {
namespace {

/// SplitMix64's step: Steele, Lea, Flood: Fast splittable pseudorandom number generators (OOPSLA 2014).
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

bool draws() { return test_options().seed.has_value(); }

std::uint64_t drawn(std::initializer_list<std::uint64_t> of, std::uint64_t below) {
  if (!test_options().seed) return 0;
  std::uint64_t state = mixed(*test_options().seed);
  for (std::uint64_t number : of) state = mixed(state ^ mixed(number));
  return state % below;
}

}  // namespace lockstep::testing
