// Tests of exercise 21.9, part f: the largest elements exactly, the others in eight bits.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common/chunk.hpp"
#include "common/testing/answered.hpp"
#include "common/testing/verdict.hpp"
#include "labs/week21_data_parallel/compression.hpp"
#include "labs/week21_data_parallel/compression_testing.hpp"

namespace lockstep::week21::compression_mixed_test {
namespace {

constexpr auto bytes_sent = testing::answer<week21::bytes_sent>;
constexpr auto ranks_to_break_even = testing::answer<week21::ranks_to_break_even>;

constexpr std::size_t kBlock = 16, kEvery = 20;
constexpr float kLarge = 64;

std::size_t largest_of(std::size_t size) { return (size + kEvery - 1) / kEvery; }

/// One element in kEvery is large, elsewhere on each rank and in each step; all others lie between −1 and 1.007.
bool is_large(int rank, std::size_t i, int step = 0) {
  return (i + 7 * static_cast<std::size_t>(rank) + 3 * static_cast<std::size_t>(step)) % kEvery == 0;
}
float large_at(std::size_t i) { return i % 2 == 0 ? kLarge : -kLarge; }
float outlying(int rank, std::size_t i, int step = 0) {
  return is_large(rank, i, step) ? large_at(i) : rough(rank, i, step);
}

/// Without an error, then with one that owes all that is large; each the sum, whose bytes and messages come first.
Values both_ways(Rank me, const Case& c) {
  std::vector<float> all(c.size), small(c.size), owed(c.size);
  for (std::size_t i = 0; i < c.size; ++i) {
    const bool large = is_large(me.rank(), i);
    all[i] = outlying(me.rank(), i);
    small[i] = large ? 0 : all[i];
    owed[i] = all[i] - small[i];
  }
  Slice data = uploaded(me, all), error = uploaded(me, owed, Category::optimizer);
  Values seen;
  append_traffic(me, seen, [&] { mixed_all_reduce(me, data, {}, largest_of(c.size), kBlock, {.seed = 3}); });
  append_values(me, data, seen);
  upload(me, data, small);
  append_traffic(me, seen,
                 [&] { mixed_all_reduce(me, data, error, largest_of(c.size), kBlock, {.seed = 3, .step = 1}); });
  append_values(me, data, seen);
  return seen;
}

TEST(Lab21_9f, TheLargestAreExactAndTheOthersHaveAFineScale) {
  run_cases(both_ways, [](const Case& c, const Outcome& outcome) -> std::string {
    for (const bool with_error : {false, true}) {
      const std::size_t at = 2 + (with_error ? c.size + 2 : 0);
      const std::string apart = replicas_part(outcome, at, c.size);
      if (!apart.empty()) return apart;
      // Each rank's scale is at most 1.007/127, and the sum's at most p times that, and what rounding added.
      const double most = 1.007 * c.ranks / 127 * (2 + 1.0 / 127) + 1e-4;
      for (std::size_t i = 0; i < c.size; ++i) {
        double exact = 0, large = 0;
        for (int rank = 0; rank < c.ranks; ++rank) {
          exact += outlying(rank, i);
          if (is_large(rank, i)) large += large_at(i);
        }
        const double off = outcome.values[0][at + i] - exact;
        if (std::abs(off) <= most) continue;
        const double part = large == 0 ? 0 : std::round(off / large);
        return fmt::format(
            "element {} of {} is {:.6g}, the exact sum is {:.6g}: {}", i, c.size, outcome.values[0][at + i], exact,
            part != 0 && std::abs(off - part * large) <= most
                ? fmt::format("the large part of it, {:.6g}, {}", large,
                              part >= 0    ? "is there twice: what is sent exactly is not in the rest"
                              : with_error ? "is missing. It was owed, in `error`"
                                           : "is missing")
            : with_error ? fmt::format("off by {:.3g}, and {:.3g} is most. The large elements are owed here, and the "
                                       "gradient is small: choose the largest of both together",
                                       std::abs(off), most)
                         : fmt::format("off by {:.3g}, and {:.3g} is most, since no element but the largest is above "
                                       "1: do the largest still set the scales of their blocks?",
                                       std::abs(off), most));
      }
    }
    return "";
  });
}

TEST(Lab21_9f, SendsWhatBothPartsSend) {
  run_cases(both_ways, [](const Case& c, const Outcome& outcome) -> std::string {
    const auto numbers = [&](int chunk) { return static_cast<double>(chunk_range(c.size, chunk, c.ranks).size); };
    const double others = c.ranks - 1, scales = std::ceil(numbers(0) / kBlock);
    const double pairs = others * 8 * static_cast<double>(largest_of(c.size));
    for (int rank = 0; rank < c.ranks && c.ranks > 1; ++rank) {
      const auto expected_of = [&](int way) {  // 21.2's all-gather goes to the next rank, or to the previous one
        const double all = 2 * static_cast<double>(c.size) - numbers(rank) - numbers((rank + way + c.ranks) % c.ranks);
        return pairs + all + 2 * others * 4 * scales;
      };
      for (const std::size_t at : {std::size_t{0}, c.size + 2}) {
        const double sent = outcome.values[rank][at];
        if (sent != expected_of(1) && sent != expected_of(-1))
          return fmt::format(
              "rank {} sent {} bytes, expected {}: {} pairs of 8 bytes p − 1 times, and part d's {}: error feedback "
              "sends nothing more",
              rank, sent, expected_of(1), largest_of(c.size), expected_of(1) - pairs);
        if (outcome.values[rank][at + 1] > 6 * others)
          return fmt::format("rank {} sent {} messages, expected {}: 2(p − 1) of part a and 4(p − 1) of part d", rank,
                             outcome.values[rank][at + 1], 6 * others);
      }
    }
    return "";
  });
}

constexpr int kSteps = 6;

TEST(Lab21_9f, NothingIsLostInEitherHalf) {
  run_cases(
      [](Rank me, const Case& c) {
        Slice data = me.allocate(c.size, DType::f32, Category::gradient);
        Slice error = me.allocate(c.size, DType::f32, Category::optimizer);
        fill(me, error, 0);
        Values seen;
        std::vector<float> mine(c.size);
        for (int step = 0; step < kSteps; ++step) {
          for (std::size_t i = 0; i < c.size; ++i) mine[i] = outlying(me.rank(), i, step);
          upload(me, data, mine);
          mixed_all_reduce(me, data, error, largest_of(c.size), kBlock,
                           {.seed = 3, .step = static_cast<std::uint64_t>(step)});
          append_values(me, data, seen);
          append_values(me, error, seen);
        }
        return seen;
      },
      [](const Case& c, const Outcome& outcome) -> std::string {
        std::vector<double> sent(c.size), wanted(c.size);
        for (int step = 0; step < kSteps; ++step) {
          const std::size_t at = 2 * c.size * static_cast<std::size_t>(step);
          for (std::size_t i = 0; i < c.size; ++i) {
            double owed = 0, most = 0;
            sent[i] += outcome.values[0][at + i];
            for (int rank = 0; rank < c.ranks; ++rank) {
              wanted[i] += outlying(rank, i, step);
              owed += outcome.values[rank][at + c.size + i];
              most = std::max(most, std::abs(outcome.values[rank][at + c.size + i]));
            }
            const double off = sent[i] + owed - wanted[i];
            if (std::abs(off) <= 2e-5 * (step + 1) * c.ranks) continue;  // f32, up to 64 · p
            return fmt::format(
                "after step {}, element {}: the ranks' gradients came to {:.7g} so far, the sums to {:.7g}, and the "
                "errors hold {:.3g}: {:.3g} too {}. {}",
                step, i, wanted[i], sent[i], owed, std::abs(off), off < 0 ? "little" : "much",
                most == 0 || most > 0.25
                    ? "`error` must hold what rounding took, and nothing that was sent"
                    : "Rounding takes something twice: from each rank's array, and from the sum of a chunk, which "
                      "only its own rank can owe");
          }
        }
        return "";
      },
      {.sizes = sizes_of({1, 7, 31, 101})});
}

/// ‖mean of the sums over `steps` steps − the plain sum‖ / ‖plain sum‖, where the gradients never change.
double distance(const Case& c, const Outcome& outcome, std::size_t at) {
  double squares = 0, whole = 0;
  for (std::size_t i = 0; i < c.size; ++i) {
    double exact = 0;
    for (int rank = 0; rank < c.ranks; ++rank) exact += outlying(rank, i);
    squares += std::pow(outcome.values[0][at + i] - exact, 2);
    whole += exact * exact;
  }
  return std::sqrt(squares / whole);
}

TEST(Lab21_9f, MemoryMakesTheDistanceFallWithSteps) {
  run_cases(
      [](Rank me, const Case& c) {
        std::vector<float> mine(c.size);
        for (std::size_t i = 0; i < c.size; ++i) mine[i] = outlying(me.rank(), i);
        Slice data = me.allocate(c.size, DType::f32, Category::gradient);
        Slice error = me.allocate(c.size, DType::f32, Category::optimizer);
        Slice total = me.allocate(c.size, DType::f32, Category::buffer),
              mean = me.allocate(c.size, DType::f32, Category::buffer);
        fill(me, error, 0);
        fill(me, total, 0);
        Values seen;
        for (int step = 1; step <= 64; ++step) {
          upload(me, data, mine);
          mixed_all_reduce(me, data, error, largest_of(c.size), kBlock,
                           {.seed = 3, .step = static_cast<std::uint64_t>(step)});
          add(me, total, data);
          if (step != 4 && step != 64) continue;
          copy(me, mean, total);
          scale(me, mean, 1.0f / static_cast<float>(step));
          append_values(me, mean, seen);
        }
        return seen;
      },
      [](const Case& c, const Outcome& outcome) -> std::string {
        const double few = distance(c, outcome, 0), many = distance(c, outcome, c.size);
        if (many < few / 8) return "";
        return fmt::format(
            "gradients that never change: the mean of 4 sums lies {:.2g} from the true sum (relative), that of 64 sums "
            "{:.2g}. What is owed is bounded, so the distance must fall as 1/steps, by 16; without memory it falls by "
            "4",
            few, many);
      },
      {.ranks = {1, 2, 4, 8}, .sizes = sizes_of({101, 400})});
}

constexpr std::size_t kMany = 8192;

TEST(Lab21_9f, BeatsEachAloneAtAsManyBytes) {
  run_cases(
      [](Rank me, const Case& c) {
        std::vector<float> mine(c.size);
        for (std::size_t i = 0; i < c.size; ++i) mine[i] = outlying(me.rank(), i);
        Slice data = me.allocate(c.size, DType::f32, Category::gradient);
        Values seen;
        const auto measure = [&](const auto& sum) {
          upload(me, data, mine);
          append_traffic(me, seen, [&] { sum(); });
          append_values(me, data, seen);
        };
        // On four ranks: as much per pair as for six scales, and both others send a tenth more.
        measure([&] { mixed_all_reduce(me, data, {}, largest_of(c.size), 256, {.seed = 3}); });
        measure([&] { int8_two_step_all_reduce(me, data, 4, {.seed = 3}); });
        measure([&] { top_k_all_reduce(me, data, {}, c.size / 8); });
        return seen;
      },
      [](const Case& c, const Outcome& outcome) -> std::string {
        const Values& seen = outcome.values[0];
        constexpr const char* kNames[] = {"the largest exactly and the others in int8", "int8 with blocks of 4",
                                          "top-k of 12%"};
        const double mixed = distance(c, outcome, 2);
        testing::note(fmt::format("{}: off by {:.2g} (relative), for {} bytes", kNames[0], mixed, seen[0]));
        for (const std::size_t m : {1u, 2u}) {
          const std::size_t at = m * (c.size + 2);
          const double alone = distance(c, outcome, at + 2);
          testing::note(fmt::format("{}: off by {:.2g}, for {} bytes", kNames[m], alone, seen[at]));
          if (seen[0] > seen[at])
            return fmt::format("{} sent {} bytes, {} sent {}", kNames[0], seen[0], kNames[m], seen[at]);
          if (!(mixed < alone / 4))
            return fmt::format(
                "of {} elements, one in {} of them large, {} is off by {:.2g} (relative), and {} by {:.2g}", c.size,
                kEvery, kNames[0], mixed, kNames[m], alone);
        }
        return "";
      },
      {.ranks = {4}, .sizes = sizes_of({kMany})});
}

TEST(Lab21_9f, BreaksEvenWhereTheRingSendsAsMuch) {
  for (const double density : {0.5, 0.01, 0.001})
    for (const std::size_t block : {std::size_t{16}, std::size_t{256}}) {
      const Compression how{.method = Method::mixed, .density = density, .block = block};
      const double even = ranks_to_break_even(how);
      for (int p = 2; p <= 4096; p += 1 + p / 16) {
        const double mine = bytes_sent(how, p, 1 << 20), ring = bytes_sent({}, p, 1 << 20);
        if (std::abs(mine / ring - 1) < 1e-9) continue;
        ASSERT_EQ(mine > ring, p > even) << "mixed, density " << density << ", blocks of " << block << ": on " << p
                                         << " ranks it sends " << mine << " bytes and the ring " << ring
                                         << ", but ranks_to_break_even says " << even;
      }
    }
}

}  // namespace
}  // namespace lockstep::week21::compression_mixed_test
