// Tests of exercise 21.2: exact sums for any number of ranks and any length, and the properties that make it the ring:
// neighbours only, 2(p − 1) steps, 2(p − 1)/p·n bytes sent, one chunk of scratch, and the time of the formula.
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

#include "common/support/text/counted.hpp"
#include "labs/week21_data_parallel/all_reduce_testing.hpp"

namespace lockstep::week21::ring_all_reduce_test {
namespace {

/// Every rank knows only its own chunk; the rest is −1.
Values gather_chunks(Rank me, const Case& c) {
  std::vector<float> values(c.size, -1);
  const ChunkRange own = chunk_range(c.size, me.rank(), c.ranks);
  for (std::size_t i = own.offset; i < own.offset + own.size; ++i) values[i] = input_of(me.rank(), i, c.ranks);
  Slice data = uploaded(me, values);
  ring_all_gather(me, data);
  return host(me, data);
}

std::uint64_t chunk_bytes(const Case& c, int index) { return chunk_range(c.size, index, c.ranks).size * sizeof(float); }

/// "chunk 2": where an element lies.
std::string chunk_words(const Case& c, std::size_t element) {
  return fmt::format("chunk {}", chunk_of(c.size, element, c.ranks));
}

// Mistakes that break the ring
// -----------------------------------------------------------------------------------------------

/// The direction of a ring: 1 to the next rank, −1 to the previous one. Either will do, so the first message decides.
int way_of(const Case& c, const Outcome& outcome) {
  for (int rank = 0; rank < c.ranks; ++rank)
    for (const PeerTraffic& with : outcome.ledgers[rank].peers)
      if (with.traffic.messages_sent > 0) return with.peer == (rank + c.ranks - 1) % c.ranks && c.ranks > 2 ? -1 : 1;
  return 1;
}

/// Talks to others than its two neighbours, or in one part not the same way as the other ranks? (Both parts together
/// may go both ways.)
std::string not_a_ring(const Case& c, const Outcome& outcome, int trips) {
  const int way = way_of(c, outcome);
  for (int rank = 0; rank < c.ranks; ++rank)
    for (const PeerTraffic& with : outcome.ledgers[rank].peers) {
      const int to = (rank + c.ranks + way) % c.ranks, from = (rank + c.ranks - way) % c.ranks;
      if (trips == 2 && (with.peer == to || with.peer == from)) continue;
      if (with.traffic.messages_sent > 0 && with.peer != to)
        return fmt::format("rank {} sent to rank {}: on the ring it sends to rank {} only", rank, with.peer, to);
      if (with.traffic.messages_received > 0 && with.peer != from)
        return fmt::format("rank {} received from rank {}: on the ring it receives from rank {} only", rank, with.peer,
                           from);
    }
  return "";
}

/// Checks the number of exchanges: one per step, or fewer where some chunks are empty and an answer leaves them out.
std::string wrong_steps(const Case& c, const Outcome& outcome, int trips) {
  const auto expected = static_cast<std::uint64_t>(trips * (c.ranks - 1));
  for (int rank = 0; rank < c.ranks; ++rank) {
    const std::uint64_t steps = outcome.ledgers[rank].batches;
    const bool some_empty = c.size < static_cast<std::size_t>(c.ranks);
    if (steps > expected || (steps < expected && !some_empty))
      return fmt::format("rank {} made {}, expected {}: {}(p − 1), each a send and a receive", rank,
                         counted(steps, "exchange"), expected, trips == 1 ? "" : "2");
  }
  return "";
}

/// Bytes beyond `data` and the longest chunk?
std::string too_much_memory(const Case& c, const Outcome& outcome, std::uint64_t scratch) {
  const std::uint64_t n = c.size * sizeof(float);
  for (int rank = 0; rank < c.ranks; ++rank) {
    const std::uint64_t held = outcome.ledgers[rank].memory.peak_total;
    if (held > n + scratch)
      return fmt::format("rank {} held {} bytes at its peak, allowed {}: its array of {}{}", rank, held, n + scratch, n,
                         scratch ? fmt::format(" and a scratch of one chunk, {}", scratch)
                                 : ", and no scratch: chunks can be received in place");
  }
  return "";
}

/// Bytes sent by each rank, against every chunk but those `kept` by a ring that goes one way or the other.
std::string wrong_bytes(const Case& c, const Outcome& outcome, int trips,
                        std::uint64_t (*kept)(const Case&, int rank, int way)) {
  const auto of_way = [&](int way) -> std::string {
    for (int rank = 0; rank < c.ranks && c.ranks > 1; ++rank) {
      const std::uint64_t expected = trips * c.size * sizeof(float) - kept(c, rank, way);
      const std::uint64_t sent = outcome.ledgers[rank].traffic.bytes_sent;
      if (sent != expected)
        return fmt::format(
            "rank {} sent {} bytes of an array of {}, expected {}: one chunk per step, {}(p − 1)/p·n in all", rank,
            sent, c.size * sizeof(float), expected, trips == 1 ? "" : "2");
    }
    return "";
  };
  return of_way(-1).empty() ? "" : of_way(1);
}

// 21.2a ---------------------------------------------------------------------------------------------------------------

bool is_complete(const Values& seen, ChunkRange chunk, int ranks) {
  for (std::size_t i = chunk.offset; i < chunk.offset + chunk.size; ++i)
    if (seen[i] != sum_of_inputs(i, ranks)) return false;
  return true;
}

TEST(Lab21_2a, EachRankCompletesItsChunk) {
  run_cases(reduce_with(ring_reduce_scatter), [](const Case& c, const Outcome& outcome) -> std::string {
    for (int rank = 0; rank < c.ranks; ++rank) {
      const ChunkRange own = chunk_range(c.size, rank, c.ranks);
      for (std::size_t i = own.offset; i < own.offset + own.size; ++i) {
        const double seen = outcome.values[rank][i], sum = sum_of_inputs(i, c.ranks);
        if (seen == sum) continue;
        std::string text = fmt::format(
            "rank {}'s chunk {} must hold the sum of all ranks. Its element {} is {:.10g}, expected {:.10g}. "
            "It is {}.",
            rank, rank, i, seen, sum, explain_sum(seen, i, c.size, rank, c.ranks));
        for (int other = 0; other < c.ranks; ++other)
          if (is_complete(outcome.values[other], own, c.ranks))
            text += fmt::format(" Chunk {} is complete on rank {} instead: begin with another chunk.", rank, other);
        return text;
      }
    }
    return "";
  });
}

TEST(Lab21_2a, SendsEveryChunkButItsOwnToANeighbour) {
  run_cases(reduce_with(ring_reduce_scatter), [](const Case& c, const Outcome& outcome) {
    const auto kept = [](const Case& c, int rank, int) { return chunk_bytes(c, rank); };
    return first_of({not_a_ring(c, outcome, 1), wrong_steps(c, outcome, 1), wrong_bytes(c, outcome, 1, kept)});
  });
}

TEST(Lab21_2a, HoldsOneChunkOfScratch) {
  run_cases(reduce_with(ring_reduce_scatter),
            [](const Case& c, const Outcome& outcome) { return too_much_memory(c, outcome, chunk_bytes(c, 0)); });
}

// 21.2b ---------------------------------------------------------------------------------------------------------------

TEST(Lab21_2b, EveryRankHasEveryChunk) {
  run_cases(gather_chunks, [](const Case& c, const Outcome& outcome) -> std::string {
    for (int rank = 0; rank < c.ranks; ++rank)
      for (std::size_t i = 0; i < c.size; ++i) {
        const int owner = chunk_of(c.size, i, c.ranks);
        const double seen = outcome.values[rank][i];
        if (seen == input_of(owner, i, c.ranks)) continue;
        return fmt::format("on rank {} chunk {} must be what rank {} had. Its element {} {}", rank, owner, owner, i,
                           seen == -1
                               ? fmt::format("never came, or an unfinished chunk has overwritten it")
                               : fmt::format("is {}", explain_sum(seen, i, c.size, rank, c.ranks, Made::by_copying)));
      }
    return "";
  });
}

TEST(Lab21_2b, SendsEveryChunkButOneToANeighbour) {
  run_cases(gather_chunks, [](const Case& c, const Outcome& outcome) {
    const auto kept = [](const Case& c, int rank, int way) { return chunk_bytes(c, rank + way); };  // that rank's own
    return first_of({not_a_ring(c, outcome, 1), wrong_steps(c, outcome, 1), wrong_bytes(c, outcome, 1, kept)});
  });
}

TEST(Lab21_2b, NeedsNoScratch) {
  run_cases(gather_chunks, [](const Case& c, const Outcome& outcome) { return too_much_memory(c, outcome, 0); });
}

// 21.2 ----------------------------------------------------------------------------------------------------------------

TEST(Lab21_2, SumsAreExact) {
  run_cases(reduce_with(ring_all_reduce), [](const Case& c, const Outcome& outcome) {
    return not_the_sum(outcome, c.size, [&c](int, std::size_t i) { return chunk_words(c, i); });
  });
}

TEST(Lab21_2, SumsOfIntegersToo) {
  run_cases(reduce_integers_with(ring_all_reduce),
            [](const Case& c, const Outcome& outcome) { return not_the_sum(outcome, c.size); },
            {.ranks = {3}, .sizes = sizes_of({13})});
}

TEST(Lab21_2, SumsInsideAGroup) { expect_sums_inside_a_group(ring_all_reduce); }

TEST(Lab21_2, SendsTwiceTheArrayLessTwoChunks) {
  run_cases(reduce_with(ring_all_reduce), [](const Case& c, const Outcome& outcome) {
    const auto kept = [](const Case& c, int rank, int way) {
      return chunk_bytes(c, rank) + chunk_bytes(c, rank + way);
    };
    return first_of({not_a_ring(c, outcome, 2), wrong_steps(c, outcome, 2), wrong_bytes(c, outcome, 2, kept)});
  });
}

TEST(Lab21_2, HoldsItsArrayAndOneChunk) {
  run_cases(reduce_with(ring_all_reduce),
            [](const Case& c, const Outcome& outcome) { return too_much_memory(c, outcome, chunk_bytes(c, 0)); });
}

// 2(p − 1)α + 2(p − 1)/p·nβ + (p − 1)/p·nγ; where p does not divide n, the longest chunk stands for n/p. An addition
// that moves memory once more, such as a copy of the sum, is no other algorithm: within 5 %.
TEST(Lab21_2, TakesTheTimeOfTheFormula) {
  constexpr double alpha = 1e-6, beta = 1e-9, gamma = 1e-10;  // seconds; seconds per byte; per byte reduced
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const double longest = static_cast<double>(chunk_bytes(c, 0)), p = c.ranks;
    const double formula = 2 * (p - 1) * alpha + (p - 1) * longest * (2 * beta + gamma);
    const double seconds = slowest(outcome);
    if (seconds >= (1 - 1e-9) * formula && seconds <= 1.05 * formula) return "";
    return fmt::format("took {:.3f} µs; 2(p − 1)α + 2(p − 1)/p·nβ + (p − 1)/p·nγ is {:.3f} µs: {}", seconds * 1e6,
                       formula * 1e6,
                       seconds > formula ? "do a step's send and receive begin together, on every rank at once?"
                                         : "some work was left out");
  };
  run_cases(time_of(ring_all_reduce), judge,
            {.ranks = {2, 3, 4, 8},
             .sizes = [](int ranks) { return std::vector<std::size_t>{1000 * static_cast<std::size_t>(ranks)}; },
             .simulator_only = "it checks virtual time, which only the simulator has",
             .adjust =
                 [](const Case&, RunOptions& options) {
                   options.machine = Machine::uniform(alpha, beta, gamma);
                   options.machine.eager_bytes = 0;
                 }});
}

}  // namespace
}  // namespace lockstep::week21::ring_all_reduce_test
