// Poison: the contents of memory that has not been written. As float, bf16 and fp16 it is not a number, as an index it
// is far out of range, and its bits identify its origin.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::fake {

enum class Poison : std::uint16_t { allocated = 0x7fc1, freed = 0x7fd2, shared = 0x7fe3, guard = 0x7ff4 };

void poison(void* memory, std::size_t bytes, Poison pattern);
bool is_poison(const void* memory, std::size_t bytes, Poison pattern);

}  // namespace lockstep::fake
