#include "common/devices/cpu/philox.hpp"

namespace lockstep::cpu {

void philox(std::uint32_t* bits, std::uint64_t block, std::uint64_t key) {
#pragma omp simd
  for (std::size_t j = 0; j < kPhiloxLanes; ++j) {
    const std::uint64_t counter = block * kPhiloxLanes + j;
    std::uint32_t c0 = static_cast<std::uint32_t>(counter), c1 = static_cast<std::uint32_t>(counter >> 32), c2 = 0,
                  c3 = 0;
    std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t product0 = std::uint64_t{0xd2511f53u} * c0, product1 = std::uint64_t{0xcd9e8d57u} * c2;
      c0 = static_cast<std::uint32_t>(product1 >> 32) ^ c1 ^ k0;
      c1 = static_cast<std::uint32_t>(product1);
      c2 = static_cast<std::uint32_t>(product0 >> 32) ^ c3 ^ k1;
      c3 = static_cast<std::uint32_t>(product0);
      k0 += 0x9e3779b9u;
      k1 += 0xbb67ae85u;
    }
    bits[j] = c0;
    bits[kPhiloxLanes + j] = c1;
    bits[2 * kPhiloxLanes + j] = c2;
    bits[3 * kPhiloxLanes + j] = c3;
  }
}

}  // namespace lockstep::cpu
