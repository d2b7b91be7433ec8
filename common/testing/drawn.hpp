// Numbers that tests draw by --seed, so that no answer can know its inputs and write down what they give.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace lockstep::testing {

/// From 0 to `below` − 1: always the same for one --seed and one `of`, and 0 without a seed, which leaves the inputs
/// that tests have by themselves.
std::uint64_t drawn(std::initializer_list<std::uint64_t> of, std::uint64_t below);

/// Whether there is a --seed: a test may have a case more then.
bool draws();

}  // namespace lockstep::testing
