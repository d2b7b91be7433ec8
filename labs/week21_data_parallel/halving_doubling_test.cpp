// Tests of exercise 21.3: exact sums for any number of ranks and any length; steps, bytes, partners and scratch from
// the ledgers; the same bits on all ranks. Times are halving_doubling_time_test.cpp's.
#include "labs/week21_data_parallel/halving_doubling.hpp"

#include <bit>

#include "common/support/text/counted.hpp"
#include "labs/week21_data_parallel/all_reduce_testing.hpp"

namespace lockstep::week21 {
namespace {

const std::vector<int> kPowersOfTwo = {1, 2, 4, 8};

int lg(int p) { return std::bit_width(static_cast<unsigned>(p)) - 1; }

bool is_spare(const Case& c, int rank) { return rank >= butterfly_ranks(c.ranks); }
bool has_spare(const Case& c, int rank) { return rank + butterfly_ranks(c.ranks) < c.ranks; }

/// The place of rank's part after so many halvings.
ChunkRange part_range(std::size_t elements, int rank, int halvings) {
  ChunkRange part{0, elements};
  for (int i = 0; i < halvings; ++i) {
    const ChunkRange half = chunk_range(part.size, (rank >> i) & 1, 2);
    part = {part.offset + half.offset, half.size};
  }
  return part;
}
std::uint64_t part_bytes(const Case& c, int rank, int halvings) {
  return part_range(c.size, rank, halvings).size * sizeof(float);
}

/// Talks to a rank whose number differs in more than one bit?
std::string not_a_butterfly(const Case& c, const Outcome& outcome) {
  for (int rank = 0; rank < c.ranks; ++rank)
    for (const PeerTraffic& with : outcome.ledgers[rank].peers)
      if (std::popcount(static_cast<unsigned>(rank ^ with.peer)) != 1)
        return fmt::format("rank {} exchanged with rank {}: a partner's number differs in one bit, {} ^ distance", rank,
                           with.peer, rank);
  return "";
}

/// Checks the number of exchanges: `expected` says how many each rank makes.
std::string wrong_steps(const Case& c, const Outcome& outcome, const std::function<int(int rank)>& expected,
                        const char* words) {
  for (int rank = 0; rank < c.ranks; ++rank)
    if (outcome.ledgers[rank].batches != static_cast<std::uint64_t>(expected(rank)))
      return fmt::format("rank {} made {}, expected {}: {}", rank, counted(outcome.ledgers[rank].batches, "exchange"),
                         expected(rank), words);
  return "";
}

std::string wrong_bytes(const Case& c, const Outcome& outcome, const std::function<std::uint64_t(int rank)>& expected,
                        const char* words) {
  for (int rank = 0; rank < c.ranks; ++rank)
    if (outcome.ledgers[rank].traffic.bytes_sent != expected(rank))
      return fmt::format("rank {} sent {} bytes of an array of {}, expected {}: {}", rank,
                         outcome.ledgers[rank].traffic.bytes_sent, c.size * sizeof(float), expected(rank), words);
  return "";
}

// 21.3a ---------------------------------------------------------------------------------------------------------------

TEST(Lab21_3a, SumsAreExact) {
  run_cases(reduce_with(recursive_doubling),
            [](const Case& c, const Outcome& outcome) { return not_the_sum(outcome, c.size); },
            {.ranks = kPowersOfTwo});
}

TEST(Lab21_3a, TakesLgPStepsOfTheWholeArray) {
  const auto judge = [](const Case& c, const Outcome& outcome) {
    const auto steps = static_cast<std::uint64_t>(lg(c.ranks));
    return first_of(
        {wrong_steps(
             c, outcome, [&](int) { return lg(c.ranks); }, "lg p, each a send and a receive"),
         not_a_butterfly(c, outcome),
         wrong_bytes(
             c, outcome, [&](int) { return steps * c.size * sizeof(float); }, "the whole array, lg p times"),
         too_much_memory(
             c, outcome, [&](int) { return c.ranks == 1 ? 0 : c.size * sizeof(float); }, "and one scratch as long")});
  };
  run_cases(reduce_with(recursive_doubling), judge, {.ranks = kPowersOfTwo});
}

TEST(Lab21_3a, AllRanksEndWithTheSameBits) { expect_the_same_bits_everywhere(recursive_doubling, {2, 4, 8}); }

// 21.3b ---------------------------------------------------------------------------------------------------------------

TEST(Lab21_3b, PartnersAddTheSpareRanks) {
  const auto judge = [](const Case& c, const Outcome& outcome) {
    const auto expected = [&c](int rank, std::size_t i) {
      double sum = input_of(rank, i, c.ranks);
      if (has_spare(c, rank)) sum += input_of(rank + butterfly_ranks(c.ranks), i, c.ranks);
      return sum;
    };
    const auto place = [&c](int rank, std::size_t) -> std::string {
      const int b = butterfly_ranks(c.ranks);
      if (has_spare(c, rank)) return fmt::format("the partner of rank {}, after fold", rank + b);
      return is_spare(c, rank) ? fmt::format("a spare rank, rank {} its partner, after fold", rank - b)
                               : "neither spare rank nor partner";
    };
    return first_difference(outcome, c.size, {expected, place});
  };
  run_cases(reduce_with(fold), judge);
}

TEST(Lab21_3b, SpareRanksGetTheResult) {
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    for (int spare = butterfly_ranks(c.ranks); spare < c.ranks; ++spare) {
      const std::vector<float> own = inputs_of(spare, c.size, c.ranks);
      if (c.size > 0 && outcome.values[spare] == Values(own.begin(), own.end()))
        return fmt::format(
            "rank {}, a spare rank, still has its own array after unfold: it never got that of its partner, rank {}",
            spare, spare - butterfly_ranks(c.ranks));
    }
    const auto expected = [&c](int rank, std::size_t i) {
      return input_of(is_spare(c, rank) ? rank - butterfly_ranks(c.ranks) : rank, i, c.ranks);
    };
    const auto place = [&c](int rank, std::size_t) -> std::string {
      return is_spare(c, rank) ? "a spare rank, after unfold" : "";
    };
    return first_difference(outcome, c.size, {expected, place, Made::by_copying});
  };
  run_cases(reduce_with(unfold), judge);
}

TEST(Lab21_3b, OnlySpareRanksAndTheirPartnersDoAnything) {
  const auto both = [](Rank me, Slice data) {
    fold(me, data);
    unfold(me, data);
  };
  const auto judge = [](const Case& c, const Outcome& outcome) {
    const std::uint64_t n = c.size * sizeof(float);
    const auto takes_part = [&](int rank) { return is_spare(c, rank) || has_spare(c, rank); };
    return first_of({wrong_steps(
                         c, outcome, [&](int rank) { return takes_part(rank) ? 2 : 0; },
                         "one for fold and one for unfold, of spare ranks and partners alone"),
                     wrong_bytes(
                         c, outcome, [&](int rank) { return takes_part(rank) ? n : 0; },
                         "a spare rank sends its array, its partner the result"),
                     too_much_memory(
                         c, outcome, [&](int rank) { return has_spare(c, rank) ? n : 0; },
                         "and only a partner needs a scratch, for what its spare rank sends")});
  };
  run_cases(reduce_with(both), judge);
}

// 21.3c ---------------------------------------------------------------------------------------------------------------

TEST(Lab21_3c, EachRankCompletesItsPart) {
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    for (int rank = 0; rank < c.ranks; ++rank) {
      const ChunkRange own = part_range(c.size, rank, lg(c.ranks));
      for (std::size_t i = own.offset; i < own.offset + own.size; ++i) {
        const double seen = outcome.values[rank][i], sum = sum_of_inputs(i, c.ranks);
        if (seen != sum)
          return fmt::format(
              "elements {} … {} are rank {}'s part and must hold the sum of all ranks. Element {} is {:.10g}, expected "
              "{:.10g}. It is {}.",
              own.offset, own.offset + own.size - 1, rank, i, seen, sum, explain_sum(seen, i, c.size, rank, c.ranks));
      }
    }
    return "";
  };
  run_cases(reduce_with(halving_reduce_scatter), judge, {.ranks = kPowersOfTwo});
}

TEST(Lab21_3c, SendsAHalfThenAQuarter) {
  const auto judge = [](const Case& c, const Outcome& outcome) {
    const std::uint64_t n = c.size * sizeof(float);
    const auto but_its_part = [&](int rank) { return n - part_bytes(c, rank, lg(c.ranks)); };
    const auto longer_half = [&](int) { return c.ranks == 1 ? 0 : (c.size + 1) / 2 * sizeof(float); };
    return first_of({wrong_steps(
                         c, outcome, [&](int) { return lg(c.ranks); }, "lg p, each a send and a receive"),
                     not_a_butterfly(c, outcome),
                     wrong_bytes(c, outcome, but_its_part, "n/2, then n/4, …: all but its own part, (p − 1)/p·n"),
                     too_much_memory(c, outcome, longer_half, "and a scratch of half of it")});
  };
  run_cases(reduce_with(halving_reduce_scatter), judge, {.ranks = kPowersOfTwo});
}

/// The halves go to the nearest partner, or on a cluster half the array would cross the slow links.
TEST(Lab21_3c, TheNearestPartnerGetsTheMost) {
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    for (int rank = 0; rank < c.ranks; ++rank)
      for (int step = 0; step < lg(c.ranks); ++step) {
        const int partner = rank ^ (1 << step);
        const std::uint64_t sent = outcome.ledgers[rank].sent_to(partner);
        const std::uint64_t expected = part_bytes(c, partner, step + 1);
        if (sent != expected)
          return fmt::format(
              "rank {} sent {} bytes of {} to rank {}, expected {}: step {} sends the part that rank {} "
              "keeps, n/{}",
              rank, sent, c.size * sizeof(float), partner, expected, step, partner, 2 << step);
      }
    return "";
  };
  run_cases(reduce_with(halving_reduce_scatter), judge, {.ranks = {2, 4, 8}});
}

// 21.3d ---------------------------------------------------------------------------------------------------------------

/// Every rank knows only its own part; the rest is −1.
Values gather_parts(Rank me, const Case& c) {
  std::vector<float> values(c.size, -1);
  const ChunkRange own = part_range(c.size, me.rank(), lg(c.ranks));
  for (std::size_t i = own.offset; i < own.offset + own.size; ++i) values[i] = input_of(me.rank(), i, c.ranks);
  Slice data = uploaded(me, values);
  doubling_all_gather(me, data);
  return host(me, data);
}

int owner_of(const Case& c, std::size_t element) {
  for (int rank = 0; rank < c.ranks; ++rank) {
    const ChunkRange part = part_range(c.size, rank, lg(c.ranks));
    if (part.offset <= element && element < part.offset + part.size) return rank;
  }
  return -1;
}

TEST(Lab21_3d, EveryRankHasEveryPart) {
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    for (int rank = 0; rank < c.ranks; ++rank)
      for (std::size_t i = 0; i < c.size; ++i) {
        const int owner = owner_of(c, i);
        const double seen = outcome.values[rank][i];
        if (seen == input_of(owner, i, c.ranks)) continue;
        return fmt::format("on rank {} element {} must be what rank {} had in its part. It {}", rank, i, owner,
                           seen == -1
                               ? "never came, or an unfinished part has overwritten it"
                               : fmt::format("is {}", explain_sum(seen, i, c.size, rank, c.ranks, Made::by_copying)));
      }
    return "";
  };
  run_cases(gather_parts, judge, {.ranks = kPowersOfTwo});
}

TEST(Lab21_3d, SendsTheShortestPartsFirst) {
  const auto judge = [](const Case& c, const Outcome& outcome) {
    const auto grown = [&](int rank) {
      std::uint64_t bytes = 0;
      for (int halvings = lg(c.ranks); halvings > 0; --halvings) bytes += part_bytes(c, rank, halvings);
      return bytes;
    };
    return first_of({wrong_steps(
                         c, outcome, [&](int) { return lg(c.ranks); }, "lg p, each a send and a receive"),
                     not_a_butterfly(c, outcome),
                     wrong_bytes(c, outcome, grown, "its part, then twice as much, …: (p − 1)/p·n in all"),
                     too_much_memory(
                         c, outcome, [](int) { return 0; }, "and no scratch: parts are received in place")});
  };
  run_cases(gather_parts, judge, {.ranks = kPowersOfTwo});
}

// 21.3 ----------------------------------------------------------------------------------------------------------------

TEST(Lab21_3, SumsAreExactForAnyNumberOfRanks) {
  for (Collective collective : {recursive_doubling_all_reduce, rabenseifner_all_reduce})
    run_cases(reduce_with(collective),
              [](const Case& c, const Outcome& outcome) { return not_the_sum(outcome, c.size); });
}

TEST(Lab21_3, SumsOfIntegersToo) {
  for (Collective collective : {recursive_doubling_all_reduce, rabenseifner_all_reduce})
    run_cases(reduce_integers_with(collective),
              [](const Case& c, const Outcome& outcome) { return not_the_sum(outcome, c.size); },
              {.ranks = {3, 4}, .sizes = sizes_of({13})});
}

TEST(Lab21_3, SumsInsideAGroup) {
  expect_sums_inside_a_group(recursive_doubling_all_reduce);
  expect_sums_inside_a_group(rabenseifner_all_reduce);
}

TEST(Lab21_3, AllRanksEndWithTheSameBits) {
  expect_the_same_bits_everywhere(recursive_doubling_all_reduce, {3, 4, 7, 8});
  expect_the_same_bits_everywhere(rabenseifner_all_reduce, {3, 4, 7, 8});
}

TEST(Lab21_3, StepsAndBytesOfRabenseifner) {
  const auto judge = [](const Case& c, const Outcome& outcome) {
    const int b = butterfly_ranks(c.ranks);
    const std::uint64_t n = c.size * sizeof(float);
    const auto steps = [&](int rank) { return is_spare(c, rank) ? 2 : 2 * lg(b) + (has_spare(c, rank) ? 2 : 0); };
    const auto bytes = [&](int rank) {
      if (is_spare(c, rank)) return n;
      std::uint64_t sent = n - part_bytes(c, rank, lg(b)) + (has_spare(c, rank) ? n : 0);
      for (int halvings = 1; halvings <= lg(b); ++halvings) sent += part_bytes(c, rank, halvings);
      return sent;
    };
    return first_of(
        {wrong_steps(c, outcome, steps, "2⌊lg p⌋, and two more with a spare rank"),
         wrong_bytes(c, outcome, bytes, "2(b − 1)/b·n in the butterfly, and n to or from a spare rank"),
         too_much_memory(
             c, outcome, [&](int rank) { return has_spare(c, rank) ? n : (c.size + 1) / 2 * sizeof(float); },
             "and half of it to receive, or all of it from a spare rank")});
  };
  run_cases(reduce_with(rabenseifner_all_reduce), judge);
}

}  // namespace
}  // namespace lockstep::week21
