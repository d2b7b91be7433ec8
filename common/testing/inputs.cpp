#include "common/testing/inputs.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "common/testing/drawn.hpp"

namespace lockstep::testing {

namespace {
constexpr int kReadableRanks = 8;            // ranks whose counts fit below kElement
constexpr double kElement = 65536;           // 4^8
constexpr double kExactIntegers = 16777216;  // limit for fp32: 2^24

/// A factor from 1 to 31; each occurs once in 31 consecutive elements.
double element_factor(int rank, std::size_t element) {
  const auto r = static_cast<std::uint64_t>(rank);
  return static_cast<double>(1 + (element * (1 + drawn({r, 0}, 30)) + drawn({r, 1}, 31)) % 31);
}

/// The contents of a sum: how often it counts each rank, and of which element.
struct Reading {
  std::vector<int> counts;
  int terms = 0;
  std::optional<std::size_t> element;
};

constexpr int kBf16Bits = 8, kFp16Bits = 11;  // bits of the significand, including the implicit one

/// Rounds `value`, which is not 0, to so many bits, to nearest, ties to even.
double rounded(double value, int bits) {
  const double unit = std::ldexp(1, std::ilogb(value) + 1 - bits);
  return unit * std::nearbyint(value / unit);
}

/// The part above kElement of a sum with these counts.
double factors(const std::vector<int>& counts, std::size_t element) {
  double sum = 0;
  for (std::size_t rank = 0; rank < counts.size(); ++rank)
    sum += counts[rank] * element_factor(static_cast<int>(rank), element);
  return sum;
}

/// Interprets a sum of inputs; returns nothing if it is not one.
std::optional<Reading> read_sum(double value, std::size_t element, std::size_t size, int ranks) {
  if (ranks > kReadableRanks || !(value > 0) || value >= kExactIntegers || value != std::floor(value)) return {};
  Reading reading;
  auto digits = static_cast<std::uint64_t>(std::fmod(value, kElement));
  for (int rank = 0; rank < ranks; ++rank, digits /= 4) {
    reading.counts.push_back(static_cast<int>(digits % 4));
    reading.terms += reading.counts.back();
  }
  if (digits != 0 || reading.terms == 0) return {};
  const double above = std::floor(value / kElement);
  if (above == factors(reading.counts, element)) reading.element = element;
  for (std::size_t other = 0; !reading.element && other < size; ++other)
    if (above == factors(reading.counts, other)) reading.element = other;
  return reading;
}

std::string describe_counts(const Reading& reading, int rank, Made made) {
  std::vector<int> present, missing, repeated;
  for (int r = 0; r < static_cast<int>(reading.counts.size()); ++r) {
    (reading.counts[r] ? present : missing).push_back(r);
    if (reading.counts[r] > 1) repeated.push_back(r);
  }
  const char* each = present.size() == 1 ? "rank" : "ranks";
  if (repeated.empty() && present.size() == 1) {
    const bool copied = made == Made::by_copying;
    if (present[0] == rank)
      return fmt::format("rank {}'s own input: nothing {}", rank, copied ? "has replaced it" : "was added to it");
    return fmt::format("rank {}'s input{}", present[0],
                       copied ? "" : fmt::format(" alone, rank {}'s own is not in it", rank));
  }
  std::string text = missing.empty() ? "the sum of all ranks" : fmt::format("the sum of {} {}", each, list_of(present));
  if (!missing.empty())
    text += fmt::format("; rank{} {} missing", missing.size() == 1 ? "" : "s",
                        list_of(missing) + (missing.size() == 1 ? " is" : " are"));
  for (int r : repeated) text += fmt::format("; rank {} is counted {} times", r, reading.counts[r]);
  return text;
}
}  // namespace

float input_of(int rank, std::size_t element, int ranks) {
  if (ranks > kReadableRanks)
    return static_cast<float>(
        1 + (element * 7 + static_cast<std::size_t>(rank) * 31 + drawn({static_cast<std::uint64_t>(rank)}, 509)) % 509);
  return static_cast<float>(std::pow(4, rank) + kElement * element_factor(rank, element));
}

std::vector<float> inputs_of(int rank, std::size_t size, int ranks) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = input_of(rank, i, ranks);
  return values;
}

std::vector<std::int32_t> integer_inputs_of(int rank, std::size_t size, int ranks) {
  std::vector<std::int32_t> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<std::int32_t>(input_of(rank, i, ranks));
  return values;
}

double sum_of_inputs(std::size_t element, int ranks) {
  double sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += input_of(rank, element, ranks);
  return sum;
}

std::string list_of(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == numbers.size() ? " and " : ", ", numbers[i]);
  return text;
}

std::string explain_sum(double value, std::size_t element, std::size_t size, int rank, int ranks, Made made) {
  if (std::isnan(value)) return "uninitialised memory (new memory is filled with NaN)";
  const double sum = sum_of_inputs(element, ranks);
  if (ranks > 1 && value == static_cast<float>(sum / ranks))
    return "the sum divided by the number of ranks: an average";
  if (ranks > 1 && value == static_cast<float>(sum * ranks)) return "the sum of all ranks, counted once for each rank";
  const auto reading = read_sum(value, element, size, ranks);
  if (!reading)
    return value == rounded(sum, kBf16Bits)   ? "the sum of all ranks, rounded to bf16"
           : value == rounded(sum, kFp16Bits) ? "the sum of all ranks, rounded to fp16"
                                              : "not a sum of inputs";
  const std::string made_of = describe_counts(*reading, rank, made);
  if (!reading->element) return made_of + ", of different elements mixed";
  if (*reading->element != element) return fmt::format("{}, but of element {}", made_of, *reading->element);
  return made_of;
}

std::string first_difference(const Outcome& outcome, std::size_t size, const Expectation& expected) {
  const int ranks = static_cast<int>(outcome.values.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const Values& seen = outcome.values[rank];
    if (seen.size() < size) return fmt::format("rank {} returned {} values, expected {}", rank, seen.size(), size);
    for (std::size_t i = 0; i < size; ++i) {
      const double value = expected.value(rank, i);
      if (seen[i] == value) continue;
      std::string place = expected.place ? expected.place(rank, i) : "";
      if (!place.empty()) place = " (" + place + ")";
      return fmt::format("rank {}, element {}{} is {:.10g}, expected {:.10g}. It is {}.", rank, i, place, seen[i],
                         value, explain_sum(seen[i], i, size, rank, ranks, expected.made));
    }
  }
  return "";
}

std::string not_the_sum(const Outcome& outcome, std::size_t size,
                        const std::function<std::string(int, std::size_t)>& place) {
  const int ranks = static_cast<int>(outcome.values.size());
  Values sums(size);  // once, not for each of a thousand ranks
  for (std::size_t i = 0; i < size; ++i) sums[i] = sum_of_inputs(i, ranks);
  return first_difference(outcome, size, {[&sums](int, std::size_t i) { return sums[i]; }, place});
}

}  // namespace lockstep::testing
