// Equal values on a GPU and on the CPU, and comparison of the results.
#pragma once

#include <gtest/gtest.h>

#include "common/devices/cpu/cpu_device.hpp"
#include "common/devices/tests/host_workplace.hpp"
#include "common/devices/tests/near.hpp"
#include "common/devices/tests/serial_backend.hpp"

namespace lockstep::testing {

struct AgainstCpu : ::testing::Test {
  Bench gpu{1}, cpu{std::make_unique<HostWorkplace>(make_cpu_device(1))};

  /// Makes the same values on both.
  std::pair<Slice, Slice> normal(std::size_t n, DType dtype, float deviation = 1) {
    std::normal_distribution<float> draw(0, deviation);
    std::vector<float> values(n);
    for (float& value : values) value = draw(gpu.generator);
    return {gpu.of(values, dtype), cpu.of(values, dtype)};
  }
  void expect_same(const Slice& of_gpu, const Slice& of_cpu, const char* what) {
    const auto a = gpu.read_bits<std::uint8_t>(of_gpu), b = cpu.read_bits<std::uint8_t>(of_cpu);
    ASSERT_EQ(a.size(), b.size());
    const auto differs = std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin();
    ASSERT_EQ(differs, static_cast<std::ptrdiff_t>(a.size()))
        << what << ": byte " << differs << " of " << of_gpu.size() << " × " << to_string(of_gpu.dtype());
  }
};

}  // namespace lockstep::testing
