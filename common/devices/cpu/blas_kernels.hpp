// Decides which of OpenBLAS's kernels fit a processor. OpenBLAS chooses by the model numbers it knows, so an old
// version takes a new processor for an older kind: 0.3.21 gives AMD's Zen 5 its kernels for Haswell, which use half of
// its vector width, and it may take an unknown processor for one without AVX. This code goes only by the processor's
// features.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace lockstep::cpu {

/// Width in bits of the widest vectors that x86 code may use; 128 is SSE, present on every x86-64.
enum class Vectors { sse = 128, avx2 = 256, avx512 = 512 };

/// Vector width that the kernels of an OpenBLAS family use. Unknown families are newer and assumed to fit.
inline Vectors vectors_of(std::string_view family) {
  constexpr std::array<std::string_view, 16> kSse = {
      "Katmai",  "Coppermine", "Northwood", "Prescott",     "Banias",    "Core2", "Penryn", "Dunnington",
      "Nehalem", "Athlon",     "Opteron",   "Opteron_SSE3", "Barcelona", "Nano",  "Atom",   "Bobcat"};
  constexpr std::array<std::string_view, 7> kAvx = {"Sandybridge", "Haswell",     "Zen",      "Bulldozer",
                                                    "Piledriver",  "Steamroller", "Excavator"};
  if (std::find(kSse.begin(), kSse.end(), family) != kSse.end()) return Vectors::sse;
  if (std::find(kAvx.begin(), kAvx.end(), family) != kAvx.end()) return Vectors::avx2;
  return Vectors::avx512;
}

/// Family that OpenBLAS should be told to use on a processor with such vectors, if it chose `chosen` by itself; empty
/// if `chosen` fits.
inline std::string_view better_family(std::string_view chosen, Vectors processor) {
  if (vectors_of(chosen) >= processor) return "";
  return processor == Vectors::avx512 ? "SkylakeX" : "Haswell";
}

}  // namespace lockstep::cpu
