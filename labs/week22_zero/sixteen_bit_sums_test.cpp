// Tests of exercise 22.11.
#include "labs/week22_zero/sixteen_bit_sums.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "common/arithmetic.hpp"
#include "common/runtime/ledger/ledger.hpp"
#include "common/testing/cases.hpp"
#include "common/testing/drawn.hpp"
#include "common/testing/listener.hpp"

namespace lockstep::week22::sixteen_bit_sums_test {
namespace {

using testing::Case;
using testing::CasePlan;
using testing::drawn;
using testing::run_cases;
using testing::sizes_of;

/// Tests of numbers that one rank computes; a case's size is the number of ranks in the ring.
CasePlan plan_of_rings(std::vector<std::size_t> rings) {
  return {.ranks = {1}, .sizes = sizes_of(std::move(rings)), .unit = "", .which = "ranks in the ring:"};
}

Slice on_device(Rank me, const std::vector<float>& values) {
  Slice slice = me.allocate(values.size(), DType::bf16, Category::buffer);
  upload(me, slice, values);
  return slice;
}

/// `value` in bf16, by what is left over from the multiple of the spacing that is nearest, and even from the middle.
float in_bf16(float value) {
  if (value == 0) return 0;
  return value - std::remainder(value, std::ldexp(1.0f, std::ilogb(value) - 7));
}

float in_a_ring(const std::vector<float>& values, int chunk) {
  const std::size_t p = values.size();
  float sum = 0;
  for (std::size_t step = 1; step <= p; ++step)
    sum = in_bf16(sum + values[(static_cast<std::size_t>(chunk) + step) % p]);
  return sum;
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
      return fmt::format(
          "{:.9g} is rounded to {:.9g}, expected {:.9g}{}", numbers[i], seen[i], right,
          middle ? fmt::format(". It is in the middle of that and {:.9g}, whose last bit is 1", other) : "");
    }
    return "";
  };
  run_cases(program, judge, {.ranks = {1}, .sizes = sizes_of({0}), .unit = ""});
}

/// What each of p ranks has: 256 on rank `which` and 1 on the others; from p on, numbers with signs.
std::vector<float> by_rank(std::size_t which, std::size_t ranks) {
  std::vector<float> values(ranks, 1);
  if (which < ranks) values[which] = 256;
  for (std::uint64_t r = 0; which >= ranks && r < ranks; ++r)
    values[r] = static_cast<float>((r * 89 + which * 31 + drawn({22, 11, r, which}, 255)) % 255) - 127;
  return values;
}
constexpr std::size_t kWithSigns = 4;

/// Of every chunk, for every `which`: what ring_sum says, and then what the device's additions give.
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

std::string wrong_sums(const Case& c, const Outcome& outcome) {
  const std::size_t p = c.size, rows = p + kWithSigns;
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
          (chunk + 1) % p, chunk,
          seen == exact ? "each addition is rounded: this is the exact sum"
                        : fmt::format("the exact sum is {:.9g}", exact));
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

/// What the elements of an array are like, in turn.
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

// Part c --------------------------------------------------------------------------------------------------------------

constexpr std::size_t kElements = 301;

/// Whole numbers from −127 to 127 and their halves and quarters, which differ from rank to rank (as gradients of small
/// batches do), or not.
std::vector<std::vector<float>> arrays(std::size_t ranks, bool agree) {
  std::mt19937 random(static_cast<unsigned>(ranks + drawn({22, 11, ranks, 4}, 1000)));
  std::vector<std::vector<float>> all(ranks);
  for (std::vector<float>& array : all)
    for (std::size_t i = 0; i < kElements; ++i) {
      const auto number = static_cast<int>(random() % 255) - 127;
      array.push_back(std::ldexp(static_cast<float>(number), -static_cast<int>(random() % 3)));
    }
  if (agree) all.assign(ranks, all[0]);
  return all;
}

SumErrors right_errors(const std::vector<std::vector<float>>& values) {
  const auto p = static_cast<int>(values.size());
  double ring = 0, once = 0, all = 0;
  for (std::size_t i = 0; i < kElements; ++i) {
    std::vector<float> column;
    for (const std::vector<float>& array : values) column.push_back(array[i]);
    float sum = 0;
    double exact = 0;
    for (float value : column) sum += value, exact += value;
    const double in_ring = in_a_ring(column, chunk_of(kElements, i, p)) - exact, at_end = in_bf16(sum) - exact;
    ring += in_ring * in_ring, once += at_end * at_end, all += exact * exact;
  }
  return {std::sqrt(ring / all), std::sqrt(once / all)};
}

/// What part c is made of: 256 on rank 0 of eight and 1 on the others, in chunk 0 and so on.
std::string wrong_ring(const Values& seen, std::size_t at) {
  for (int chunk = 0; chunk < 8; ++chunk)
    if (const double found = seen.at(at + static_cast<std::size_t>(chunk)), right = in_a_ring(by_rank(0, 8), chunk);
        found != right)
      return fmt::format("22.11a first: of 256 and seven times 1, chunk {} is {:.9g}, expected {:.9g}. Seen here: ",
                         chunk, found, right);
  return "";
}

TEST(Lab22_11c, TheRingsErrorGrowsWithP) {
  std::string differing, agreeing;
  const auto program = [](Rank, const Case& c) {
    const SumErrors errors = errors_of(arrays(c.size, false)), agree = errors_of(arrays(c.size, true));
    Values seen{errors.ring, errors.once, agree.ring, agree.once};
    for (int chunk = 0; chunk < 8; ++chunk) seen.push_back(ring_sum(by_rank(0, 8), chunk));
    return seen;
  };
  const auto judge = [&](const Case& c, const Outcome& outcome) -> std::string {
    const Values& seen = outcome.values[0];
    for (std::size_t agree = 0; agree < 2; ++agree) {
      const SumErrors right = right_errors(arrays(c.size, agree == 1));
      for (std::size_t way = 0; way < 2; ++way) {
        const double found = seen[2 * agree + way], expected = way == 0 ? right.ring : right.once;
        if (!(std::abs(found - expected) <= 1e-6 * expected))
          return wrong_ring(seen, 4) +
                 fmt::format("numbers that {}: the relative error of {} is {:.6g}, expected {:.6g}",
                             agree == 1 ? "all ranks agree on" : "differ from rank to rank",
                             way == 0 ? "the ring" : "sums that are rounded once", found, expected);
      }
    }
    const char* between = differing.empty() ? "" : ", ";
    differing += fmt::format("{}{:.2f} ({:.2f})", between, 100 * seen[0], 100 * seen[1]);
    agreeing += fmt::format("{}{:.2f} ({:.2f})", between, 100 * seen[2], 100 * seen[3]);
    return "";
  };
  CasePlan plan = plan_of_rings({2, 8, 64, 512});
  plan.together = true;
  run_cases(program, judge, plan);
  if (HasFailure() || differing.empty()) return;
  testing::note(fmt::format(
      "error of a ring in bf16 on 2, 8, 64 and 512 ranks, in % (rounded once): {}; where all ranks have the "
      "same numbers: {}",
      differing, agreeing));
}

}  // namespace
}  // namespace lockstep::week22::sixteen_bit_sums_test
