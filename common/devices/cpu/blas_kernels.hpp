// Which of OpenBLAS's kernels fit a processor. OpenBLAS chooses by the model numbers that it knows, so an old one takes
// a new processor for an older kind: 0.3.21 gives AMD's Zen 5 its kernels for Haswell, which use half of its vectors,
// and may take an unknown one for one from before AVX. This goes by the processor's features alone.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace lockstep::cpu {

/// Bits of the widest vectors that code for x86 may use; 128 is SSE, of every x86-64.
enum class Vectors { sse = 128, avx2 = 256, avx512 = 512 };

/// What the kernels of one of OpenBLAS's families use. Families that are not known here are newer than this: they are
/// taken to fit whatever OpenBLAS chose them for.
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

/// The family that OpenBLAS should be told to take, of a processor with such vectors, where it chose `chosen` by
/// itself; empty where that fits.
inline std::string_view better_family(std::string_view chosen, Vectors processor) {
  if (vectors_of(chosen) >= processor) return "";
  return processor == Vectors::avx512 ? "SkylakeX" : "Haswell";
}

/// Whether our own code, compiled for `own`, is to be taken in place of OpenBLAS's `family`, which stays whatever it is
/// told: where its vectors are narrower than ours. With vectors as wide, OpenBLAS is as fast or faster.
inline bool own_is_better(std::string_view family, Vectors own) { return vectors_of(family) < own; }

}  // namespace lockstep::cpu
