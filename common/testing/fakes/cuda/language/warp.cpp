// Operations of a whole warp: votes, the tensor cores' product, and the loads of its operands.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>

#include "common/testing/fakes/cuda/language/kernel_language.hpp"

namespace lockstep::fake {

namespace {

constexpr unsigned kAll = 0xffffffffu;

struct Vote {
  bool mine;
  unsigned all;
};

float number(std::uint32_t pair, int i, Half type) {
  const auto half = static_cast<unsigned short>(pair >> (16 * i));
  return type == Half::bf16 ? __bfloat162float(__nv_bfloat16_raw{half}) : __half2float(__half_raw{half});
}

template <Half type>
void multiply(void* const* of_lane, unsigned) {
  // PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type".
  float a[16][16], b[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const Mma& mma = *static_cast<const Mma*>(of_lane[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 2; ++i) {
      for (int r = 0; r < 4; ++r) a[g + r % 2 * 8][2 * t + r / 2 * 8 + i] = number(mma.a[r], i, type);
      for (int r = 0; r < 2; ++r) b[2 * t + r * 8 + i][g] = number(mma.b[r], i, type);
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    const Mma& mma = *static_cast<const Mma*>(of_lane[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int r = 0; r < 4; ++r) {
      const int row = g + r / 2 * 8, column = 2 * t + r % 2;
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += a[row][k] * b[k][column];
      mma.d[r] = mma.c[r] + sum;
    }
  }
}

template <bool transposed>
void load(void* const* of_lane, unsigned) {
  std::uint16_t rows[32][8];
  for (int lane = 0; lane < 32; ++lane) {
    std::memcpy(rows[lane], static_cast<const LoadMatrix*>(of_lane[lane])->row, sizeof rows[lane]);
  }
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int matrix = 0; matrix < 4; ++matrix) {
      const auto* const m = rows + 8 * matrix;
      const std::uint32_t low = transposed ? m[2 * t][g] : m[g][2 * t];
      const std::uint32_t high = transposed ? m[2 * t + 1][g] : m[g][2 * t + 1];
      static_cast<const LoadMatrix*>(of_lane[lane])->registers[matrix] = low | high << 16;
    }
  }
}

}  // namespace

unsigned ballot(unsigned mask, bool predicate, const char* name, Site site) {
  Vote vote{predicate, 0};
  meet_warp(
      mask, &vote,
      [](void* const* of_lane, unsigned present) {
        unsigned all = 0;
        for (int i = 0; i < 32; ++i) {
          if (present >> i & 1) all |= static_cast<unsigned>(static_cast<const Vote*>(of_lane[i])->mine) << i;
        }
        for (int i = 0; i < 32; ++i) {
          if (present >> i & 1) static_cast<Vote*>(of_lane[i])->all = all;
        }
      },
      name, site);
  return vote.all;
}

void mma_m16n8k16(Mma mine, Half type, const char* file, int line) {
  meet_warp(kAll, &mine, type == Half::bf16 ? multiply<Half::bf16> : multiply<Half::f16>, "mma_m16n8k16", {file, line});
}

void ldmatrix_x4(LoadMatrix mine, bool transposed, const char* file, int line) {
  if (reinterpret_cast<std::uintptr_t>(mine.row) % 16 != 0) {
    kernel_error("ldmatrix_x4 from an address that is not a multiple of 16", {file, line});
  }
  meet_warp(kAll, &mine, transposed ? load<true> : load<false>, "ldmatrix_x4", {file, line});
}

}  // namespace lockstep::fake
