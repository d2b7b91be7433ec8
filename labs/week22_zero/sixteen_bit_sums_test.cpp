// Tests of exercise 22.11, parts a and b: sums in 16 bits, to the bit; what the sum in fp32 sends and holds.
#include "labs/week22_zero/sixteen_bit_sums.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "common/arithmetic.hpp"
#include "common/runtime/ledger/ledger.hpp"
#include "common/testing/cases.hpp"
#include "common/testing/drawn.hpp"
#include "labs/week22_zero/sixteen_bit_sums_testing.hpp"

namespace lockstep::week22::sixteen_bit_sums_test {
namespace {

using testing::Case;
using testing::drawn;
using testing::run_cases;
using testing::sizes_of;

Slice on_device(Rank me, const std::vector<float>& values) {
  Slice slice = me.allocate(values.size(), DType::bf16, Category::buffer);
  upload(me, slice, values);
  return slice;
}

// Part a --------------------------------------------------------------------------------------------------------------

/// Numbers between two of bf16, in the middle, and close to it.
std::vector<float> awkward_numbers() {
  std::vector<float> all{0, 1, 256, 257, 259, 261, 263, 0x1.01p0f, 0x1.03p0f, 0x1.ffp0f, 0x1.010002p0f, 0x1.00fffep0f};
  all.insert(all.end(), {0x1p-126f, 0x1.01p-126f, 0x1.81p-126f, 0x1.ffp125f, 0x1.03p126f});
  for (std::uint64_t i = 0; i < 200; ++i) {
    const auto places = static_cast<float>((i * 40503 + 977 + drawn({22, 11, i, 1}, 65536)) % 65536);
    all.push_back(std::ldexp(1 + places / 65536, static_cast<int>(i % 100) - 50));
  }
  const std::size_t positive = all.size();
  for (std::size_t i = 0; i < positive; ++i) all.push_back(-all[i]);
  return all;
}

/// The nearest number of so many significant bits.
double with_bits(double value, int bits) {
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits);
}

TEST(Lab22_11a, RoundsAsTheDeviceDoes) {
  const std::vector<float> numbers = awkward_numbers();
  const auto program = [&](Rank me, const Case&) {
    Values seen;
    for (float number : numbers) seen.push_back(round_to_bf16(number));
    for (float right : to_host(me, on_device(me, numbers))) seen.push_back(right);
    return seen;
  };
  const auto judge = [&](const Case&, const Outcome& outcome) -> std::string {
    const Values& seen = outcome.values[0];
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const double right = seen[numbers.size() + i], other = 2.0 * numbers[i] - right;
      if (seen[i] == right) continue;
      const bool middle = right != numbers[i] && in_bf16(static_cast<float>(other)) == other;
      return fmt::format("{:.9g} is rounded to {:.9g}, expected {:.9g}{}", numbers[i], seen[i], right,
                         seen[i] == with_bits(numbers[i], 7) ? ": you keep 7 significant bits, and bf16 has 8"
                         : middle
                             ? fmt::format(": it is midway between {:.9g} and {:.9g}, and the last bit of {:.9g} is 1",
                                           std::min(right, other), std::max(right, other), other)
                             : "");
    }
    return "";
  };
  run_cases(program, judge, {.ranks = {1}, .sizes = sizes_of({0}), .unit = ""});
}

constexpr std::size_t kWithSigns = 4;

/// For every chunk, for every `which`: what ring_sum says, and then what the device's additions give.
Values sums_by_chunk(Rank me, const Case& c) {
  const std::size_t p = c.size, rows = p + kWithSigns;
  std::vector<Slice> ranks;
  for (std::size_t r = 0; r < p; ++r) {
    std::vector<float> row;
    for (std::size_t which = 0; which < rows; ++which) row.push_back(by_rank(which, p)[r]);
    ranks.push_back(on_device(me, row));
  }
  const Slice sum = me.allocate(rows, DType::bf16, Category::buffer);
  Values seen;
  for (std::size_t chunk = 0; chunk < p; ++chunk) {
    for (std::size_t which = 0; which < rows; ++which)
      seen.push_back(ring_sum(by_rank(which, p), static_cast<int>(chunk)));
    copy(me, sum, ranks[(chunk + 1) % p]);
    for (std::size_t step = 2; step <= p; ++step) add(me, sum, ranks[(chunk + step) % p]);
    for (float right : to_host(me, sum)) seen.push_back(right);
  }
  return seen;
}

/// Says by what the sums of all chunks can be explained; "" if by neither.
std::string cause_of(std::size_t p, const Values& seen) {
  const std::size_t rows = p + kWithSigns;
  bool exact = true, backward = true;
  for (std::size_t chunk = 0; chunk < p; ++chunk)
    for (std::size_t which = 0; which < rows; ++which) {
      const std::vector<float> values = by_rank(which, p);
      const double found = seen[chunk * 2 * rows + which];
      exact = exact && found == std::accumulate(values.begin(), values.end(), 0.0);
      backward = backward && found == in_a_ring({values.rbegin(), values.rend()}, static_cast<int>(p - 1 - chunk));
    }
  if (backward) return "your ring sends to the previous rank, and here it sends to the next";
  return exact ? "each addition is rounded: this is the exact sum" : "";
}

std::string wrong_sums(const Case& c, const Outcome& outcome) {
  const std::size_t p = c.size, rows = p + kWithSigns;
  const std::string cause = cause_of(p, outcome.values[0]);
  for (std::size_t chunk = 0; chunk < p; ++chunk)
    for (std::size_t which = 0; which < rows; ++which) {
      const double seen = outcome.values[0][chunk * 2 * rows + which],
                   right = outcome.values[0][(chunk * 2 + 1) * rows + which];
      if (seen == right) continue;
      double exact = 0;
      for (float value : by_rank(which, p)) exact += value;
      return fmt::format(
          "{}: chunk {} is {:.9g}, expected {:.9g}. It begins on rank {}, is complete on rank {}, and {}",
          which < p ? fmt::format("256 on rank {}, 1 on the others", which) : "numbers with signs", chunk, seen, right,
          (chunk + 1) % p, chunk, cause.empty() ? fmt::format("the exact sum is {:.9g}", exact) : cause);
    }
  return "";
}

TEST(Lab22_11a, EveryChunkIsAddedInItsOwnOrder) {
  run_cases(sums_by_chunk, wrong_sums, plan_of_rings({1, 2, 3, 5, 8, 13, 32}));
}

TEST(Lab22_11a, AgreeingRanksAreLost) {
  const auto program = [](Rank, const Case& c) {
    return Values{ring_sum(std::vector<float>(c.size, 1), 0), ring_sum(std::vector<float>(c.size, 0.75f), 100)};
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const Values right{std::min(256.0, static_cast<double>(c.size)), in_a_ring(std::vector<float>(c.size, 0.75f), 100)};
    for (std::size_t i = 0; i < 2; ++i)
      if (outcome.values[0][i] != right[i])
        return fmt::format("all ranks have {}: the sum is {:.9g}, expected {:.9g}", i == 0 ? "1" : "0.75",
                           outcome.values[0][i], right[i]);
    return "";
  };
  run_cases(program, judge, plan_of_rings({128, 1024}));
}

// Part b --------------------------------------------------------------------------------------------------------------

/// The kinds of an array's elements, in turn.
enum class Kind : std::uint64_t { large, cancels, signs };
constexpr std::size_t kKinds = 3;
Kind kind_of(std::size_t i) { return static_cast<Kind>((i + drawn({22, 11, 2}, kKinds)) % kKinds); }

float element(int rank, std::size_t i, int ranks) {
  const auto r = static_cast<std::uint64_t>(rank);
  switch (kind_of(i)) {
    case Kind::large: return i / kKinds % static_cast<std::size_t>(ranks) == r ? 256 : 1;
    case Kind::cancels: return ranks < 3 || (rank > 0 && rank < ranks - 1) ? 1 : rank == 0 ? 0x1p24f : -0x1p24f;
    default:
      return std::ldexp(static_cast<float>((r * 37 + i * 11 + drawn({22, 11, r, i, 3}, 255)) % 255) - 127,
                        static_cast<int>((r + i) % 4));
  }
}

struct Sent {
  double bytes = 0, peak = 0;
};

/// The elements, then the bytes sent and the most that buffers held.
Values summed(Rank me, const Case& c) {
  std::vector<float> values;
  for (std::size_t i = 0; i < c.size; ++i) values.push_back(element(me.rank(), i, c.ranks));
  const Slice data = me.allocate(c.size, DType::bf16, Category::gradient);
  upload(me, data, values);
  const RankLedger before = ledger_of(me);
  all_reduce_in_fp32(me, data);
  const RankLedger after = ledger_of(me);
  Values seen;
  for (float value : to_host(me, data)) seen.push_back(value);
  seen.push_back(static_cast<double>(after.traffic.bytes_sent - before.traffic.bytes_sent));
  seen.push_back(static_cast<double>(after.memory.peak_of(Category::buffer)));
  return seen;
}

std::string wrong_element(const Case& c, int rank, std::size_t i, double seen) {
  float sum = 0;
  double exact = 0;
  for (int r = 0; r < c.ranks; ++r) sum += element(r, i, c.ranks), exact += element(r, i, c.ranks);
  const float right = in_bf16(sum);
  if (seen == right) return "";
  const std::string numbers = fmt::format("rank {}, element {} is {:.9g}, expected {:.9g}", rank, i, seen, right);
  if (seen == element(rank, i, c.ranks) && seen != 256) return numbers + ": it is what this rank had before";
  if (kind_of(i) == Kind::cancels && c.ranks > 2)
    return fmt::format(
        "{}. Rank 0 has 2^24, rank {} has −2^24, the others 1, which an fp32 of 2^24 does not notice. In another order "
        "than that of the ranks, the sum is another",
        numbers, c.ranks - 1);
  return fmt::format("{}. The fp32 sum is {:.9g}, and only that is rounded", numbers, sum);
}

std::string wrong_costs(const Case& c, const Outcome& outcome) {
  const auto p = static_cast<std::size_t>(c.ranks), longest = chunk_range(c.size, 0, c.ranks).size;
  const auto halves = static_cast<double>(2 * (p - 1) * c.size);  // elements that a reduce-scatter and a gather send
  double together = 0;
  for (int rank = 0; rank < c.ranks; ++rank) {
    const Values& seen = outcome.values[static_cast<std::size_t>(rank)];
    const Sent sent{seen[c.size], seen[c.size + 1]};
    together += sent.bytes;
    if (c.size % p == 0 && sent.bytes != 2 * halves / c.ranks)
      return fmt::format("rank {} sent {} bytes, expected {}: those of a ring of {} elements of 2 bytes", rank,
                         sent.bytes, 2 * halves / c.ranks, c.size);
    const auto most = static_cast<double>(2 * p * longest + 2 * 4 * longest);
    if (sent.peak > most)
      return fmt::format("rank {} had {} bytes of buffers, allowed are {}: {} chunks in bf16 and two in fp32", rank,
                         sent.peak, most, p);
  }
  if (together != 2 * halves)
    return fmt::format("all ranks together sent {} bytes, expected {}: those of a ring in bf16", together, 2 * halves);
  return "";
}

std::string wrong_all_reduce(const Case& c, const Outcome& outcome) {
  for (int rank = 0; rank < c.ranks; ++rank)
    for (std::size_t i = 0; i < c.size; ++i) {
      const std::string wrong = wrong_element(c, rank, i, outcome.values[static_cast<std::size_t>(rank)][i]);
      if (!wrong.empty()) return wrong;
    }
  return wrong_costs(c, outcome);
}

TEST(Lab22_11b, SumsAreRoundedOnce) { run_cases(summed, wrong_all_reduce); }

}  // namespace
}  // namespace lockstep::week22::sixteen_bit_sums_test
