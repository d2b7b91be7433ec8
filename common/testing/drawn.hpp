// Numbers that tests draw by --seed, so that no answer can know its inputs and hard-code the results.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace lockstep::testing {

/// Returns a number from 0 to `below` − 1: the same for equal --seed and `of`, and 0 without a seed, which keeps the
/// default inputs.
std::uint64_t drawn(std::initializer_list<std::uint64_t> of, std::uint64_t below);

/// True if there is a --seed: a test may have an additional case then.
bool draws();

}  // namespace lockstep::testing
