// Tests of exercise 22.2: ZeRO stage 1, on the scripted model.
#include "labs/week22_zero/zero1.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "common/testing/scripted_model.hpp"
#include "common/testing/values.hpp"
#include "labs/week22_zero/zero_gpt_testing.hpp"
#include "labs/week22_zero/zero_steps_testing.hpp"
#include "labs/week22_zero/zero_timing_testing.hpp"

namespace lockstep::week22 {
namespace {

using testing::CaseJudge;
using testing::CasePlan;
using testing::CaseProgram;
using testing::in_reverse_order;
using testing::run_cases;
using testing::ScriptedWindow;
using testing::sizes_of;

constexpr week21::DdpOptions kSmallBuckets{.bucket_bytes = 48, .first_bucket_bytes = 16, .overlap = true};

/// A window of backward passes of the scripted model, all but the last inside no_sync.
void run_passes(Rank dp, Zero1& zero, const Parameters& parameters, int window, int passes) {
  fill(dp, parameters.gradients, 0);
  week21::run_window(zero.ddp(), passes, [&](int pass) {
    for (std::size_t i = parameters.list.size(); i-- > 0;) {
      testing::add_scripted_gradient(dp, parameters, i, dp.rank(), window, pass);
      zero.ddp().gradient_ready(i);
    }
  });
}

/// The chunks that rank `rank` keeps, as elements of the flat slices, bucket by bucket.
std::vector<ChunkRange> chunks_of(const std::vector<ChunkRange>& buckets, int rank, int ranks) {
  std::vector<ChunkRange> chunks;
  for (const ChunkRange& bucket : buckets) {
    const ChunkRange mine = chunk_range(bucket.size, rank, ranks);
    chunks.push_back({bucket.offset + mine.offset, mine.size});
  }
  return chunks;
}

/// The scripted model's buckets under kSmallBuckets, worked out apart from the code under test.
std::vector<ChunkRange> scripted_buckets(std::size_t tensors) {
  std::vector<ChunkRange> buckets;
  std::vector<std::size_t> offsets{0};
  for (std::size_t i = 0; i < tensors; ++i) offsets.push_back(offsets.back() + 1 + (i * 7 + 3) % 13);
  for (std::size_t end = tensors, i = tensors; i-- > 0;) {
    const std::size_t bytes = 4 * (offsets[end] - offsets[i]);
    if (i > 0 && bytes < (buckets.empty() ? kSmallBuckets.first_bucket_bytes : kSmallBuckets.bucket_bytes)) continue;
    buckets.push_back({offsets[i], offsets[end] - offsets[i]});
    end = i;
  }
  return buckets;
}

/// The rank that keeps `element`.
int owner_of(const std::vector<ChunkRange>& buckets, std::size_t element, int ranks) {
  for (const ChunkRange& bucket : buckets)
    if (element >= bucket.offset && element < bucket.offset + bucket.size)
      return chunk_of(bucket.size, element - bucket.offset, ranks);
  return -1;
}

std::size_t elements_of(const std::vector<ChunkRange>& ranges) {
  std::size_t sum = 0;
  for (const ChunkRange& range : ranges) sum += range.size;
  return sum;
}

/// "; 56 bytes are those of rank 1's chunk", if some rank's state is that large.
std::string whose_state(const std::vector<ChunkRange>& buckets, double bytes, double each, int ranks) {
  for (int rank = 0; rank < ranks; ++rank)
    if (bytes > 0 && each * static_cast<double>(elements_of(chunks_of(buckets, rank, ranks))) == bytes)
      return fmt::format("; {} bytes are those of rank {}'s chunk", bytes, rank);
  return "";
}

/// Why a step left an element of `rank`'s values as it was.
std::string unmoved(int rank, int owner) {
  if (rank == owner)
    return "It is in this rank's own chunk: does each bucket's optimizer take a step, and is the chunk its range?";
  return fmt::format(
      "Rank {} keeps it: its new value is there, and reaches the others if they gather the values of each bucket after "
      "the update (not its gradients, and not before). Bucket by bucket: chunks of the whole model are not chunks of "
      "the buckets",
      owner);
}

CasePlan scripted_plan() { return {.sizes = sizes_of(scripted_sizes()), .queues = true, .unit = "parameter"}; }

// Part a -------------------------------------------------------------------------------------------------------------

/// A rank's shares after each of two windows of so many passes.
Values shares_of_windows(Rank dp, const Case& c, int passes) {
  const Parameters parameters = testing::scripted_parameters(dp, c.size);
  const auto zero = make_zero1(dp, parameters, kSmallBuckets, kAdamW);
  Values seen;
  for (int window = 0; window < 2; ++window) {
    run_passes(dp, *zero, parameters, window, passes);
    for (const Slice& share : zero->gradient_shares()) testing::append(dp, share, seen);
  }
  return seen;
}

std::string wrong_shares_of_windows(const Case& c, const Outcome& outcome, int passes) {
  for (int rank = 0; rank < c.ranks; ++rank) {
    std::size_t at = 0;
    for (int w = 0; w < 2; ++w)
      for (const ChunkRange& range : chunks_of(scripted_buckets(c.size), rank, c.ranks))
        for (std::size_t e = range.offset; e < range.offset + range.size; ++e, ++at) {
          const ScriptedWindow window{c.ranks, w, passes};
          if (outcome.values[rank].at(at) == window.average(0, e)) continue;
          return fmt::format(
              "rank {}, window {}: element {} of its share of the gradients is {}, expected {}. It "
              "is {}.",
              rank, w, e, outcome.values[rank][at], window.average(0, e),
              window.explain(outcome.values[rank][at], rank, 0, e));
        }
  }
  return "";
}

TEST(Lab22_2a, MyShareOfTheGradientsIsTheAverage) {
  for (int passes : {1, 3}) {
    run_cases([&](Rank dp, const Case& c) { return shares_of_windows(dp, c, passes); },
              [&](const Case& c, const Outcome& outcome) { return wrong_shares_of_windows(c, outcome, passes); },
              scripted_plan());
    if (HasFailure()) return;
  }
}

TEST(Lab22_2a, TheStateIsThatOfMyShare) {
  for (DType storage : {DType::f32, DType::bf16}) {
    const auto program = [&](Rank dp, const Case& c) {
      Parameters parameters = testing::scripted_parameters(dp, c.size);
      Slice values = dp.allocate(parameters.count(), storage, Category::parameter);
      cast(dp, values, parameters.values);
      parameters.values = values;
      const auto zero = make_zero1(dp, parameters, kSmallBuckets, kAdamW);
      return Values{static_cast<double>(ledger_of(dp).memory.live_of(Category::optimizer)),
                    static_cast<double>(ledger_of(dp).memory.peak_of(Category::optimizer))};
    };
    const auto judge = [&](const Case& c, const Outcome& outcome) -> std::string {
      const double each = storage == DType::f32 ? 8 : 12;  // m and v; and a master copy
      for (int rank = 0; rank < c.ranks; ++rank) {
        const auto mine = elements_of(chunks_of(scripted_buckets(c.size), rank, c.ranks));
        const auto all = elements_of(scripted_buckets(c.size));
        const double expected = each * static_cast<double>(mine);
        for (double bytes : outcome.values[rank])
          if (bytes != expected)
            return fmt::format(
                "rank {} holds {} bytes of optimizer state, expected {}: {} bytes for each of the {} "
                "elements of its share{}",
                rank, bytes, expected, each, mine,
                bytes == each * static_cast<double>(all) ? "; this is the state of all parameters: nothing is sharded"
                                                         : whose_state(scripted_buckets(c.size), bytes, each, c.ranks));
      }
      return "";
    };
    run_cases(program, judge, scripted_plan());
    if (HasFailure()) return;
  }
}

/// Which elements each bucket's optimizer moves.
Values moved_by_optimizers(Rank dp, const Case& c) {
  const Parameters parameters = testing::scripted_parameters(dp, c.size);
  const auto zero = make_zero1(dp, parameters, kSmallBuckets, {.weight_decay = 0});
  fill(dp, parameters.gradients, 1);
  Values seen;
  for (Optimizer& optimizer : zero->optimizers()) {  // one after the other, and which elements each has moved
    fill(dp, parameters.values, 0);
    optimizer.step(dp, kRate);
    for (float value : to_host(dp, parameters.values)) seen.push_back(value != 0);
  }
  return seen;
}

std::string wrong_optimizers(const Case& c, const Outcome& outcome) {
  const std::vector<ChunkRange> buckets = scripted_buckets(c.size);
  const std::size_t all = elements_of(buckets);
  for (int rank = 0; rank < c.ranks; ++rank) {
    if (outcome.values[rank].size() != buckets.size() * all)
      return fmt::format("rank {} has {} optimizers, expected {}: one for each bucket", rank,
                         outcome.values[rank].size() / all, buckets.size());
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      const ChunkRange mine = chunks_of({buckets[b]}, rank, c.ranks).front();
      for (std::size_t e = 0; e < all; ++e) {
        const bool own = e >= mine.offset && e < mine.offset + mine.size;
        if ((outcome.values[rank][b * all + e] != 0) == own) continue;
        return fmt::format(
            "rank {}: the optimizer of bucket {} {} element {} of all parameters. Its own are {} from element {} on: "
            "the bucket begins at {}, and this rank's chunk of it is chunk {} of {}",
            rank, b, own ? "does not update" : "updates", e, mine.size, mine.offset, buckets[b].offset, rank, c.ranks);
      }
    }
  }
  return "";
}

TEST(Lab22_2a, TheOptimizersAreThoseOfMyShare) {
  run_cases(moved_by_optimizers, wrong_optimizers, {.sizes = sizes_of(scripted_sizes()), .unit = "parameter"});
  if (!HasFailure())
    run_cases(in_reverse_order(moved_by_optimizers), in_reverse_order(wrong_optimizers),
              {.ranks = {3}, .sizes = sizes_of({5}), .unit = "parameter"});
}

TEST(Lab22_2a, SendsAReduceScatterOfEachBucket) {
  const auto program = [](Rank dp, const Case& c) {
    const Parameters parameters = testing::scripted_parameters(dp, c.size);
    const auto zero = make_zero1(dp, parameters, kSmallBuckets, kAdamW);
    const std::uint64_t before = ledger_of(dp).traffic.bytes_sent;
    run_passes(dp, *zero, parameters, 0, 2);
    return Values{static_cast<double>(ledger_of(dp).traffic.bytes_sent - before)};
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const auto buckets = scripted_buckets(c.size);
    const std::size_t all = elements_of(buckets);
    for (int rank = 0; rank < c.ranks; ++rank)
      if (const auto expected = 4 * static_cast<double>(all - elements_of(chunks_of(buckets, rank, c.ranks)));
          outcome.values[rank][0] != expected)
        return fmt::format(
            "rank {} sent {} bytes in a window of two passes, expected {}: a reduce-scatter of {} bytes of gradients, "
            "once; half an all-reduce",
            rank, outcome.values[rank][0], expected, 4 * all);
    return "";
  };
  run_cases(program, judge, {.sizes = sizes_of({1, 5, 12}), .unit = "parameter"});
}

}  // namespace

std::string wrong_zero1_a() {
  const Case c{2, 5};
  if (!testing::has_ranks(c.ranks)) return "";
  const auto wrong = [&](const CaseProgram& program, const CaseJudge& judge) {
    const Outcome outcome = run({.ranks = c.ranks}, Program([&](Rank dp) { return program(dp, c); }));
    const std::string error = outcome.passed() ? judge(c, outcome) : outcome.message;
    return error.empty() ? ""
                         : "22.2a first: with 2 ranks and 5 parameters, " + error + (error.ends_with('.') ? "" : ".");
  };
  const std::string shares =
      wrong([](Rank dp, const Case& of) { return shares_of_windows(dp, of, 1); },
            [](const Case& of, const Outcome& outcome) { return wrong_shares_of_windows(of, outcome, 1); });
  return shares.empty() ? wrong(moved_by_optimizers, wrong_optimizers) : shares;
}

namespace {

// Part b -------------------------------------------------------------------------------------------------------------

TEST(Lab22_2b, FactorAndSkipReachEveryShare) {
  const auto program = [](Rank dp, const Case& c) {
    const Parameters parameters = testing::scripted_parameters(dp, c.size);
    const auto zero = make_zero1(dp, parameters, kSmallBuckets, {.weight_decay = 0});
    Slice one = dp.allocate(1, DType::f32, Category::buffer), nothing = dp.allocate(1, DType::f32, Category::buffer);
    fill(dp, one, 1);
    fill(dp, nothing, 0);
    run_passes(dp, *zero, parameters, 0, 1);
    Values seen;
    const auto look = [&] { testing::append(dp, parameters.values, seen); };
    zero->step(kRate, {}, one);  // skipped: an overflow was found
    look();
    zero->step(kRate, nothing);  // a gradient of 0: AdamW without decay stands still
    look();
    zero->step(kRate, one);
    look();
    return seen;
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const std::size_t all = elements_of(scripted_buckets(c.size));
    for (int rank = 0; rank < c.ranks; ++rank)
      for (std::size_t step = 0; step < 3; ++step)
        for (std::size_t e = 0; e < all; ++e) {
          const double value = outcome.values[rank].at(step * all + e), before = static_cast<double>(e) + 1;
          const bool moved = value != before;
          if (moved == (step == 2)) continue;
          return fmt::format("rank {}, element {}: {} after a step with {}, {} before it. {}", rank, e, value,
                             step == 0   ? "skip = 1, which changes nothing"
                             : step == 1 ? "gradient_factor = 0, which changes nothing here"
                                         : "gradient_factor = 1, which moves every element",
                             before,
                             value == c.ranks * before && c.ranks > 1
                                 ? fmt::format("It is {} times that: the ranks' values were added up, where an "
                                               "all-gather only copies them",
                                               c.ranks)
                             : step == 2 ? unmoved(rank, owner_of(scripted_buckets(c.size), e, c.ranks))
                                         : "Does every optimizer get skip and gradient_factor?");
        }
    return "";
  };
  run_cases(program, judge,
            {.ranks = {1, 2, 3, 4}, .sizes = sizes_of({5}), .unit = "parameter", .cause = wrong_zero1_a});
}

TEST(Lab22_2b, EveryStepObeysItsArguments) {
  const auto program = [](Rank dp, const Case& c) {
    Parameters parameters = scripted_values(dp, scripted_table(c.size));
    parameters.gradients = dp.allocate(parameters.values.size(), DType::f32, Category::gradient);
    const auto zero = make_zero1(dp, parameters, kSmallBuckets, kAdamW);
    std::vector<std::size_t> first;
    for (const ChunkRange& mine : chunks_of(scripted_buckets(c.size), dp.rank(), dp.size()))
      first.push_back(mine.offset);
    return take_steps(
        dp, zero->gradient_shares(), first,
        [&](const Slice& factor, const Slice& skip, const Slice& skipped) { zero->step(kRate, factor, skip, skipped); },
        [&] { return to_host(dp, parameters.values); });
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const std::size_t all = elements_of(scripted_buckets(c.size));
    for (int rank = 0; rank < c.ranks; ++rank) {
      const std::string wrong = wrong_steps(outcome.values[rank], rank, c.size, all, [](std::size_t i) { return i; });
      if (!wrong.empty()) return wrong;
    }
    return "";
  };
  run_cases(program, judge,
            {.ranks = {1, 2, 3, 4}, .sizes = sizes_of({5}), .unit = "parameter", .cause = wrong_zero1_a});
}

TEST(Lab22_2b, AStepSendsOneAllGather) {
  const auto program = [](Rank dp, const Case& c) {
    const Parameters parameters = testing::scripted_parameters(dp, c.size);
    const auto zero = make_zero1(dp, parameters, kSmallBuckets, kAdamW);
    run_passes(dp, *zero, parameters, 0, 1);
    const Traffic before = ledger_of(dp).traffic;
    zero->step(kRate);
    const Traffic after = ledger_of(dp).traffic;
    return Values{static_cast<double>(after.bytes_received - before.bytes_received),
                  static_cast<double>(after.bytes_sent - before.bytes_sent)};
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const auto buckets = scripted_buckets(c.size);
    const std::size_t all = elements_of(buckets);
    const double most = 4.0 * (c.ranks - 1) * static_cast<double>(elements_of(chunks_of(buckets, 0, c.ranks)));
    for (int rank = 0; rank < c.ranks; ++rank) {
      const Values& seen = outcome.values[rank];
      const double expected = 4 * static_cast<double>(all - elements_of(chunks_of(buckets, rank, c.ranks)));
      if (seen[0] != expected)
        return fmt::format(
            "rank {} received {} bytes in the step, expected {}: an all-gather of {} bytes of values; with the "
            "reduce-scatter 2(p − 1)/p of them, as an all-reduce",
            rank, seen[0], expected, 4 * all);
      if (seen[1] > most)
        return fmt::format(
            "rank {} sent {} bytes in the step, more than p − 1 chunks ({}): all ranks send equally much", rank,
            seen[1], most);
    }
    return "";
  };
  run_cases(program, judge, {.sizes = sizes_of({1, 5, 12}), .unit = "parameter", .cause = wrong_zero1_a});
}

// All together -------------------------------------------------------------------------------------------------------

TEST(Lab22_2, ReductionsHideBehindTheBackward) {
  const auto program = [](Rank dp, const Case&) {
    TimedModel model(dp);
    Parameters parameters = model.parameters();
    parameters.gradients = dp.allocate(parameters.values.size(), DType::f32, Category::gradient);
    const auto zero = make_zero1(dp, parameters, {.bucket_bytes = 1, .first_bucket_bytes = 1, .overlap = true}, kAdamW);
    return model.measure([&] {
      for (std::size_t i = kTimedLayers; i-- > 0;) {
        model.work(2);
        zero->ddp().gradient_ready(i);
      }
      zero->ddp().finish();
    });
  };
  run_timed(program, [](const Case&, const Timed& t) { return too_much_shows(t, 1, kTimedLayers); });
}

}  // namespace
}  // namespace lockstep::week22
