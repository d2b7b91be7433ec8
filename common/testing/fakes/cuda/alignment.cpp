// Handlers that the compiler calls, in kernels built with -fsanitize=alignment, before an access through a type whose
// alignment the address lacks. A GPU then ends the kernel with "misaligned address", whereas this processor may
// continue, depending on the compiler's instructions. Replaces libubsan, whose layout of arguments it uses.
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "common/testing/fakes/cuda/emulator.hpp"

namespace {

struct SourceLocation {
  const char* file;
  std::uint32_t line, column;
};
struct Type {
  std::uint16_t kind, info;
  char name[1];
};
struct Mismatch {
  SourceLocation place;
  const Type* type;
  unsigned char log_alignment, kind;
};

}  // namespace

extern "C" {

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the sanitizer's name.
void __ubsan_handle_type_mismatch_v1(const Mismatch* found, std::uintptr_t address) {
  const std::size_t wanted = std::size_t{1} << found->log_alignment;
  lockstep::fake::stop_kernel(fmt::format("an access of type {} to an address that is a multiple of {}, not of {}",
                                          found->type->name, address & (~address + 1), wanted),
                              {found->place.file, static_cast<int>(found->place.line)});
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

}  // extern "C"
