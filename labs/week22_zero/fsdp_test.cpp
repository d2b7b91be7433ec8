// Tests of exercise 22.4: ZeRO stage 3, FSDP.
#include "labs/week22_zero/fsdp.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/testing/regions.hpp"
#include "labs/week22_zero/zero_gpt.hpp"
#include "labs/week22_zero/zero_script.hpp"
#include "labs/week22_zero/zero_timing.hpp"

namespace lockstep::week22 {
namespace {

using testing::CasePlan;
using testing::run_cases;
using testing::sizes_of;

constexpr int kPasses = 3;

constexpr FsdpOptions kOnMain{.prefetch = 0, .precision = {}, .adamw = kAdamW};
constexpr FsdpOptions kPrefetch{.prefetch = 1, .precision = {}, .adamw = kAdamW};

/// The scripted model under FSDP: c.size tensors, element e begins as e + 1.
class ScriptedFsdp {
 public:
  ScriptedFsdp(Rank dp, std::size_t tensors, FsdpOptions options)
      : dp_(dp), table_(scripted_table(tensors)), visits_(scripted_visits(tensors)), lent_(tensors) {
    const BeginPart begin = [this](Rank me, std::size_t tensor, std::size_t first, Slice part) {
      std::vector<float> values;
      for (std::size_t i = 0; i < part.size(); ++i) values.push_back(value(tensor, first + i));
      upload(me, part, values);
    };
    fsdp_ = make_fsdp(dp, {table_, scripted_units(table_), visits_, begin}, options,
                      [this](std::size_t i, Slice value, Slice gradient) {
                        lent_.values[i] = std::move(value);
                        lent_.gradients[i] = std::move(gradient);
                      });
  }

  /// Looks at the values of every piece; they must be those of the beginning.
  void forward() {
    for (std::size_t v = 0; v < visits_.size(); ++v) {
      fsdp_->before(Pass::forward, v);
      check_values("forward", v);
    }
    fsdp_->end(Pass::forward);
    check_nothing_lent("forward");
  }

  void backward(int window, int pass) {
    for (std::size_t v = visits_.size(); v-- > 0;) {
      fsdp_->before(Pass::backward, v);
      check_values("backward", v);
      for (std::size_t i : visits_[v])
        if (lent_.gradients[i].size() != table_[i].size)
          complain(fmt::format("backward visit {} uses {}, of {} elements, but was lent {} for its gradient", v,
                               table_[i].name, table_[i].size, lent_.gradients[i].size()));
      add_scripted_piece(dp_, table_, visits_, v, lent_, window, pass);
    }
    fsdp_->end(Pass::backward);
    check_nothing_lent("backward");
  }

  Fsdp& fsdp() { return *fsdp_; }

 private:
  float value(std::size_t tensor, std::size_t element) const {
    return static_cast<float>(table_[tensor].offset + element + 1);
  }
  [[noreturn]] void complain(const std::string& text) const {
    throw Error(Verdict::fail, fmt::format("rank {}: {}", dp_.rank(), text));
  }

  void check_values(const char* pass, std::size_t visit) const {
    for (std::size_t i : visits_[visit]) {
      if (lent_.values[i].size() != table_[i].size)
        complain(fmt::format("{} visit {} uses {}, of {} elements, but was lent {}", pass, visit, table_[i].name,
                             table_[i].size, lent_.values[i].size()));
      const std::vector<float> seen = to_host(dp_, lent_.values[i]);
      for (std::size_t e = 0; e < seen.size(); ++e)
        if (seen[e] != value(i, e))
          complain(fmt::format("{} visit {}: {}[{}] is {}, expected {}{}", pass, visit, table_[i].name, e, seen[e],
                               value(i, e),
                               std::isnan(seen[e]) ? "; memory that nobody has written: was its unit gathered?" : ""));
    }
  }
  void check_nothing_lent(const char* pass) const {
    for (std::size_t i = 0; i < table_.size(); ++i)
      if (!lent_.values[i].empty() || !lent_.gradients[i].empty())
        complain(fmt::format("after the {} pass the model still holds {}", pass, table_[i].name));
  }

  Rank dp_;
  std::vector<Parameter> table_;
  Visits visits_;
  Lent lent_;
  std::unique_ptr<Fsdp> fsdp_;
};

CasePlan scripted_plan(const FsdpOptions& options) {
  return {.sizes = sizes_of({1, 2, 5, 12}), .queues = options.prefetch > 0, .unit = "tensor"};
}

/// Two windows, of one and of three passes: values are right whenever they are used, shares of gradients are averages.
/// A learning rate of 0 leaves the values as they are.
void shares_are_averages(FsdpOptions options, Location where = Location::current()) {
  options.adamw.weight_decay = 0;
  const auto program = [=](Rank dp, const Case& c) {
    ScriptedFsdp model(dp, c.size, options);
    Values seen;
    for (int window = 0; window < 2; ++window) {
      for (int pass = 0; pass < 1 + 2 * window; ++pass) {
        model.forward();
        model.backward(window, pass);
      }
      for (const Slice& share : model.fsdp().gradient_shares())
        for (float value : to_host(dp, share)) seen.push_back(value);
      model.fsdp().step(0);
    }
    return seen;
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const std::vector<Unit> units = scripted_units(scripted_table(c.size));
    for (int rank = 0; rank < c.ranks; ++rank) {
      std::size_t at = 0;
      for (int window = 0; window < 2; ++window) {
        const std::string wrong = wrong_shares(units, outcome.values[rank], at, rank, c.ranks, window, 1 + 2 * window);
        if (!wrong.empty()) return wrong;
      }
    }
    return "";
  };
  run_cases(program, judge, scripted_plan(options), where);
}

/// Live bytes at rest, and peaks over a forward and two backward passes, by category, exactly.
void memory_is_bounded(const FsdpOptions& options, Location where = Location::current()) {
  const auto program = [=](Rank dp, const Case& c) {
    ScriptedFsdp model(dp, c.size, options);
    Values seen;
    const auto look = [&](auto of) {
      const Memory memory = ledger_of(dp).memory;
      for (Category category : {Category::parameter, Category::gradient, Category::optimizer})
        seen.push_back(static_cast<double>((memory.*of)(category)));
    };
    look(&Memory::live_of);
    model.forward();
    look(&Memory::peak_of);
    for (int pass = 0; pass < 2; ++pass) model.backward(0, pass);
    look(&Memory::live_of);
    look(&Memory::peak_of);
    return seen;
  };
  const auto judge = [=](const Case& c, const Outcome& outcome) -> std::string {
    const std::vector<Unit> units = scripted_units(scripted_table(c.size));
    const Visits visits = scripted_visits(c.size);
    const auto ahead = static_cast<std::size_t>(options.prefetch);
    const auto most = [&](Pass pass, std::size_t further, bool behind) {
      return 4 * static_cast<double>(most_elements(units, visits, pass, further, behind));
    };
    const double forward = most(Pass::forward, ahead, false);
    const double backward = std::max(forward, most(Pass::backward, ahead, false));
    const double gradients = most(Pass::backward, 0, false);
    const double in_flight = most(Pass::backward, 0, options.prefetch > 0) - gradients;  // at most
    for (int rank = 0; rank < c.ranks; ++rank) {
      const double share = 4 * static_cast<double>(share_elements(units, rank, c.ranks));
      const double expected[] = {share,           share, 2 * share,  // at rest
                                 share + forward, share, 2 * share,  // most in a forward pass
                                 share,           share, 2 * share, share + backward, share + gradients, 2 * share};
      const char* category[] = {"values", "gradients", "optimizer state"};
      const char* when[] = {"at rest", "at most, after a forward pass", "at rest, after backward passes",
                            "at most, after backward passes"};
      for (int k = 0; k < 12; ++k)
        if (const double more = outcome.values[rank][k] - expected[k]; more < 0 || more > (k == 10 ? in_flight : 0))
          return fmt::format(
              "rank {} holds {} bytes of {} {}, expected {}: its share ({}){}", rank, outcome.values[rank][k],
              category[k % 3], when[k / 3], expected[k], k % 3 == 2 ? 2 * share : share,
              expected[k] == share || k % 3 == 2 ? ""
              : k % 3 == 0 ? fmt::format(", the units that a piece uses, and {} gathered ahead", options.prefetch)
                           : ", the units that a piece uses, and with a second queue one that is being reduced");
    }
    return "";
  };
  run_cases(program, judge, scripted_plan(options), where);
}

// Part a -------------------------------------------------------------------------------------------------------------

TEST(Lab22_4a, ValuesAreThereWhenTheyAreUsed) {
  const auto program = [](Rank dp, const Case& c) {
    ScriptedFsdp model(dp, c.size, kOnMain);
    for (int pass = 0; pass < 2; ++pass) model.forward();
    Values seen;
    for (const Slice& share : model.fsdp().value_shares())
      for (float value : to_host(dp, share)) seen.push_back(value);
    return seen;
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const std::vector<Unit> units = scripted_units(scripted_table(c.size));
    for (int rank = 0; rank < c.ranks; ++rank)
      if (outcome.values[rank].size() != share_elements(units, rank, c.ranks))
        return fmt::format("rank {} keeps {} elements, expected {}: its chunk of each unit", rank,
                           outcome.values[rank].size(), share_elements(units, rank, c.ranks));
    return "";
  };
  run_cases(program, judge, scripted_plan(kOnMain));
}

TEST(Lab22_4a, AtRestThereIsAShareAndInAPassOneUnitMore) {
  const auto program = [](Rank dp, const Case& c) {
    ScriptedFsdp model(dp, c.size, kOnMain);
    const double before = static_cast<double>(ledger_of(dp).memory.live_of(Category::parameter));
    model.forward();
    const Memory memory = ledger_of(dp).memory;
    return Values{before, static_cast<double>(memory.live_of(Category::parameter)),
                  static_cast<double>(memory.peak_of(Category::parameter))};
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const std::vector<Unit> units = scripted_units(scripted_table(c.size));
    const auto most = 4 * static_cast<double>(most_elements(units, scripted_visits(c.size), Pass::forward, 0, false));
    for (int rank = 0; rank < c.ranks; ++rank) {
      const double share = 4 * static_cast<double>(share_elements(units, rank, c.ranks));
      const Values& seen = outcome.values[rank];
      if (seen[0] != share || seen[1] != share)
        return fmt::format(
            "rank {} holds {} bytes of values before a forward pass and {} after it, expected {}: its "
            "share. Whatever was gathered must be gone",
            rank, seen[0], seen[1], share);
      if (seen[2] != share + most)
        return fmt::format(
            "rank {} held up to {} bytes of values, expected {}: its share and the units that one "
            "piece uses",
            rank, seen[2], share + most);
    }
    return "";
  };
  run_cases(program, judge, scripted_plan(kOnMain));
}

// Part b -------------------------------------------------------------------------------------------------------------

TEST(Lab22_4b, SharesOfGradientsAreAverages) { shares_are_averages(kOnMain); }

TEST(Lab22_4b, EverythingIsSharded) { memory_is_bounded(kOnMain); }

TEST(Lab22_4b, SendsTwoAllGathersAndOneReduceScatterAPass) {
  const auto program = [](Rank dp, const Case& c) {
    ScriptedFsdp model(dp, c.size, kOnMain);
    const auto sent = [&] { return ledger_of(dp).traffic.bytes_sent; };
    const std::uint64_t before = sent();
    for (int pass = 0; pass < kPasses; ++pass) {
      model.forward();
      model.backward(0, pass);
    }
    const std::uint64_t between = sent();
    model.fsdp().step(kRate);
    return Values{static_cast<double>(between - before), static_cast<double>(sent() - between)};
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const std::vector<Unit> units = scripted_units(scripted_table(c.size));
    for (int rank = 0; rank < c.ranks; ++rank) {
      const auto gather = 4 * static_cast<double>(all_gather_elements(units, rank, c.ranks));
      const auto reduce = 4 * static_cast<double>(reduce_scatter_elements(units, rank, c.ranks));
      if (outcome.values[rank][0] != kPasses * (2 * gather + reduce))
        return fmt::format(
            "rank {} sent {} bytes in {} passes, expected {}: each gathers every unit twice ({}) and "
            "reduces it once ({}), together 3Ψ(p − 1)/p",
            rank, outcome.values[rank][0], kPasses, kPasses * (2 * gather + reduce), 2 * gather, reduce);
      if (outcome.values[rank][1] != 0)
        return fmt::format("rank {} sent {} bytes in the step: everybody updates a share, and nobody needs more", rank,
                           outcome.values[rank][1]);
    }
    return "";
  };
  run_cases(program, judge, {.sizes = sizes_of({1, 5, 12}), .unit = "tensor"});
}

/// Trains the GPT; the shares of all values after each step.
Values train_fsdp(Rank dp, std::size_t sequences, int passes, const std::vector<Unit>& units,
                  const FsdpOptions& options) {
  GptConfig config = week21::small_gpt();
  config.storage = options.precision.compute;
  Gpt gpt(dp, config, 0, Owns::nothing);
  const std::vector<Parameter> table = gpt.parameters().list;
  const BeginPart begin = [&](Rank me, std::size_t i, std::size_t first, Slice part) {
    initialise_part(me, config, table[i], i, first, part, /*seed=*/0);
  };
  const auto fsdp = make_fsdp(dp, {table, units, gpt_visits(config), begin}, options,
                              [&](std::size_t i, Slice value, Slice gradient) { gpt.bind(i, value, gradient); });
  Engine engine;
  engine.before_forward = [&](std::size_t visit) { fsdp->before(Pass::forward, visit); };
  engine.end_forward = [&] { fsdp->end(Pass::forward); };
  engine.before_backward = [&](std::size_t visit) { fsdp->before(Pass::backward, visit); };
  engine.end_backward = [&] { fsdp->end(Pass::backward); };
  engine.step = [&] { fsdp->step(kRate); };
  return train_engine(dp, gpt, sequences, passes, engine, [&] {
    std::vector<float> values;
    for (const Slice& share : fsdp->value_shares())
      for (float value : to_host(dp, share)) values.push_back(value);
    return values;
  });
}

/// The shares of all ranks, put together: all values after each step.
Values whole_values(const Outcome& outcome, const std::vector<Unit>& units) {
  const int ranks = static_cast<int>(outcome.values.size());
  std::vector<std::size_t> at(outcome.values.size(), 0);
  Values whole;
  for (int step = 0; step < week21::kSteps; ++step)
    for (const Unit& unit : units)
      for (int rank = 0; rank < ranks; ++rank)
        for (std::size_t e = unit.shard(rank, ranks).size; e-- > 0; ++at[rank])
          whole.push_back(outcome.values[rank].at(at[rank]));
  return whole;
}

void equals_ddp(const FsdpOptions& options, int passes, Location where = Location::current()) {
  const auto program = [&](Rank dp, const Case& c) { return train_fsdp(dp, c.size, passes, gpt_units(), options); };
  const auto judge = [&](const Case& c, const Outcome& outcome) -> std::string {
    const Outcome ddp =
        run({.ranks = c.ranks},
            Program([&](Rank dp) { return train_unit_ddp(dp, c.size, passes, options.precision.keep); }));
    const std::string wrong = week21::wrong_parameters(whole_values(outcome, gpt_units()), ddp.check().values[0], 0);
    return wrong.empty() ? ""
                         : wrong + " (the other is plain DDP, which adds in the same order: every bit must agree).";
  };
  run_cases(program, judge,
            {.ranks = {1, 2, 3, 4, 8}, .sizes = sizes_of({3, 8}), .queues = options.prefetch > 0, .unit = "sequence"},
            where);
}

TEST(Lab22_4b, TheWeightsAreThoseOfDdpBitForBit) {
  equals_ddp(kOnMain, 1);
  if (!HasFailure()) equals_ddp(kOnMain, 2);
}

// Part c -------------------------------------------------------------------------------------------------------------

/// The names of each unit's first tensor and its number of tensors, "blocks.0.norm1.weight 12".
std::vector<std::string> described(const std::vector<Unit>& units) {
  std::vector<std::string> names;
  for (const Unit& unit : units) names.push_back(fmt::format("{} {}", unit.name, unit.count));
  return names;
}

TEST(Lab22_4c, UnitsFollowThePolicy) {
  const GptConfig config{.layers = 2, .heads = 2, .d_model = 8, .vocabulary = 13, .context = 4, .tied_head = false};
  const std::vector<Parameter> table = gpt_parameter_table(config);
  EXPECT_EQ(described(wrap(table, {Wrapping::Kind::whole_model})), std::vector<std::string>{"token_embedding 29"})
      << "the whole model is one unit";
  EXPECT_EQ(described(wrap(table, {Wrapping::Kind::each_block})),
            (std::vector<std::string>{"token_embedding 2", "blocks.0.norm1.weight 12", "blocks.1.norm1.weight 12",
                                      "norm.weight 3"}))
      << "a unit for each block, one before them and one behind";
  const auto layers = described(wrap(table, {Wrapping::Kind::each_layer}));
  EXPECT_EQ(layers.size(), 2u + 2 * 6 + 2) << "each layer is a unit, weight and bias together";
  EXPECT_EQ(layers.at(2), "blocks.0.norm1.weight 2") << "each layer is a unit, weight and bias together";
  EXPECT_EQ(layers.back(), "head 1") << "each layer is a unit";
}

TEST(Lab22_4c, AUnitIsClosedOnceItHoldsEnough) {
  for (std::size_t tensors : {1, 2, 5, 12, 40})
    for (std::size_t least : {0, 1, 7, 20, 100000}) {
      const std::vector<Parameter> table = scripted_table(tensors);
      const std::vector<Unit> units = wrap(table, {Wrapping::Kind::at_least, least});
      std::size_t next = 0;
      for (const Unit& unit : units) {
        ASSERT_EQ(unit.first, next) << "units follow one another without gaps, and hold every tensor once";
        ASSERT_EQ(unit.offset, table[next].offset);
        next += unit.count;
        const std::size_t before_last = unit.size - table.at(next - 1).size;
        if (next < tensors) {
          ASSERT_GE(unit.size, least) << "a unit of " << unit.size << " elements is not enough";
        }
        if (unit.count > 1) {
          ASSERT_LT(before_last, least) << "a unit that had enough took another tensor";
        }
      }
      ASSERT_EQ(next, tensors) << "every tensor belongs to a unit, the last ones too";
    }
}

TEST(Lab22_4c, EveryPolicyTrainsTheSame) {
  const std::vector<Parameter> table = gpt_parameter_table(week21::small_gpt());
  using Kind = Wrapping::Kind;
  for (Wrapping wrapping : {Wrapping{Kind::whole_model}, Wrapping{Kind::each_block}, Wrapping{Kind::each_layer},
                            Wrapping{Kind::at_least, 300}}) {
    const auto program = [&](Rank dp, const Case& c) {
      return train_fsdp(dp, c.size, 1, wrap(table, wrapping), kOnMain);
    };
    const auto judge = [&](const Case& c, const Outcome& outcome) -> std::string {
      const Outcome ddp = run({.ranks = c.ranks}, Program([&](Rank dp) { return train_unit_ddp(dp, c.size, 1); }));
      // Two ranks can add in one order only.
      return week21::wrong_parameters(whole_values(outcome, wrap(table, wrapping)), ddp.check().values[0],
                                      c.ranks > 2 ? 1e-5 : 0);
    };
    run_cases(program, judge, {.ranks = {1, 2, 3}, .sizes = sizes_of({8}), .unit = "sequence"});
    if (HasFailure()) return;
  }
}

// Part d -------------------------------------------------------------------------------------------------------------

TEST(Lab22_4d, TheSameWithPrefetch) {
  for (int prefetch : {1, 2}) {
    FsdpOptions options = kPrefetch;
    options.prefetch = prefetch;
    shares_are_averages(options);
    if (HasFailure()) return;
  }
}

TEST(Lab22_4d, NoMoreUnitsAheadThanAskedFor) {
  for (int prefetch : {1, 2, 100}) {
    FsdpOptions options = kPrefetch;
    options.prefetch = prefetch;
    memory_is_bounded(options);
    if (HasFailure()) return;
  }
}

TEST(Lab22_4d, GatheringHidesBehindTheModel) {
  for (int prefetch : {1, 2}) {
    const auto program = [=](Rank dp, const Case&) {
      TimedModel model(dp);
      FsdpOptions options = kPrefetch;
      options.prefetch = prefetch;
      const auto fsdp =
          make_fsdp(dp, {model.table(), model.units(), model.visits(), [](Rank, std::size_t, std::size_t, Slice) {}},
                    options, [](std::size_t, Slice, Slice) {});
      return model.measure([&] {
        for (std::size_t v = 0; v < kTimedLayers; ++v) {
          fsdp->before(Pass::forward, v);
          model.work(1);
        }
        fsdp->end(Pass::forward);
        for (std::size_t v = kTimedLayers; v-- > 0;) {
          fsdp->before(Pass::backward, v);
          model.work(2);
        }
        fsdp->end(Pass::backward);
      });
    };
    run_timed(program, [](const Case&, const Timed& t) -> std::string {
      if (t.waiting <= 0.2 * t.communication) return "";
      return fmt::format(
          "{:.2f} ms of communication, and main waited for {:.2f} ms of it: the first gathering of each "
          "pass and the last reduction should show, 3 of {}. Is the next unit gathered before this one "
          "is waited for?",
          t.communication * 1e3, t.waiting * 1e3, 3 * kTimedLayers);
    });
    if (HasFailure()) return;
  }
}

TEST(Lab22_4d, TheWeightsAreThoseOfDdpBitForBit) { equals_ddp(kPrefetch, 2); }

// Part e -------------------------------------------------------------------------------------------------------------

constexpr FsdpOptions mixed(DType keep, DType compute, DType reduce) {
  return {.prefetch = 1, .precision = {keep, compute, reduce}, .adamw = kAdamW};
}

TEST(Lab22_4e, BytesOnTheWireFollowThePolicy) {
  struct Policy {
    ShardPrecision precision;
    double gather, reduce;  // bytes an element
  };
  for (const Policy& policy :
       {Policy{{DType::f32, DType::bf16, DType::f32}, 2, 4}, Policy{{DType::f32, DType::bf16, DType::bf16}, 2, 2},
        Policy{{DType::bf16, DType::bf16, DType::f32}, 2, 4}, Policy{{DType::bf16, DType::bf16, DType::bf16}, 2, 2}}) {
    const auto program = [&](Rank dp, const Case& c) {
      // Two steps of the GPT: the second one starts from values that were updated.
      train_fsdp(dp, c.size, 1, gpt_units(),
                 mixed(policy.precision.keep, policy.precision.compute, policy.precision.reduce));
      const RankLedger ledger = ledger_of(dp);
      const auto sent = [&](const char* region, const char* place) {
        return static_cast<double>(testing::required_visits_to(ledger, region, place).traffic.bytes_sent);
      };
      return Values{sent("all_gather", "where a unit's values are gathered"),
                    sent("reduce_scatter", "where a unit's gradients are reduced")};
    };
    const auto judge = [&](const Case& c, const Outcome& outcome) -> std::string {
      const std::vector<Unit> units = gpt_units();
      for (int rank = 0; rank < c.ranks; ++rank) {
        const double gather =
            2 * week21::kSteps * policy.gather * static_cast<double>(all_gather_elements(units, rank, c.ranks));
        const double reduce =
            week21::kSteps * policy.reduce * static_cast<double>(reduce_scatter_elements(units, rank, c.ranks));
        const Values& seen = outcome.values[rank];
        const std::string words =
            fmt::format("kept in {}, computed in {}, reduced in {}", to_string(policy.precision.keep),
                        to_string(policy.precision.compute), to_string(policy.precision.reduce));
        if (seen[0] != gather)
          return fmt::format("rank {}, {}: sent {} bytes to gather values, expected {}: {} an element", rank, words,
                             seen[0], gather, policy.gather);
        if (seen[1] != reduce)
          return fmt::format("rank {}, {}: sent {} bytes to reduce gradients, expected {}: {} an element", rank, words,
                             seen[1], reduce, policy.reduce);
      }
      return "";
    };
    run_cases(program, judge, {.ranks = {2, 3}, .sizes = sizes_of({4}), .unit = "sequence"});
    if (HasFailure()) return;
  }
}

TEST(Lab22_4e, SumsAreTakenInTheReduceType) {
  // 256 + 1 is no bf16 number: with p ranks that each add one to rank 0's 256, a bf16 sum loses the ones.
  for (DType reduce : {DType::f32, DType::bf16}) {
    const auto program = [=](Rank dp, const Case&) {
      std::vector<Slice> gradients(1);
      const std::vector<Parameter> table{{"layer", 0, 3, 1, 3}};
      const auto fsdp = make_fsdp(dp,
                                  {table,
                                   {make_unit(table, 0, 1)},
                                   {{0}},
                                   [](Rank me, std::size_t, std::size_t, Slice part) { fill(me, part, 1); }},
                                  mixed(DType::f32, DType::bf16, reduce),
                                  [&](std::size_t i, Slice, Slice gradient) { gradients.at(i) = std::move(gradient); });
      fsdp->before(Pass::backward, 0);
      if (gradients[0].dtype() != DType::bf16) throw Error(Verdict::fail, "gradients are computed in bf16");
      fill(dp, gradients[0], dp.rank() == 0 ? 256.0f : 1.0f);
      fsdp->end(Pass::backward);
      Values seen;
      for (float value : to_host(dp, fsdp->gradient_shares()[0])) seen.push_back(value);
      return seen;
    };
    const auto judge = [=](const Case& c, const Outcome& outcome) -> std::string {
      for (int rank = 0; rank < c.ranks; ++rank)
        for (double value : outcome.values[rank]) {
          const double exact = (255.0 + c.ranks) / c.ranks;
          const bool is_exact = std::abs(value - exact) < 1e-6 * exact;
          if (reduce == DType::f32 && !is_exact)
            return fmt::format("rank {}: the average of bf16 gradients 256, 1, … reduced in fp32 is {}, expected {}",
                               rank, value, exact);
          if (reduce == DType::bf16 && is_exact)
            return fmt::format("rank {}: the average {} is exact, which bf16 sums cannot be: reduce in bf16", rank,
                               value);
        }
      return "";
    };
    run_cases(program, judge, {.ranks = {2, 4}, .sizes = sizes_of({3})});
    if (HasFailure()) return;
  }
}

TEST(Lab22_4e, KeptInBf16TheWeightsAreThoseOfBf16Ddp) { equals_ddp(mixed(DType::bf16, DType::bf16, DType::bf16), 1); }

TEST(Lab22_4e, KeptInFp32TrainsAsFp32DoesNearly) {
  const auto program = [](Rank dp, const Case& c) {
    return train_fsdp(dp, c.size, 1, gpt_units(), mixed(DType::f32, DType::bf16, DType::f32));
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const Outcome ddp = run({.ranks = c.ranks}, Program([&](Rank dp) { return train_unit_ddp(dp, c.size, 1); }));
    // A bf16 number has 8 bits; AdamW's steps of 0.03 follow the gradient's sign, which rounding rarely turns.
    const Values whole = whole_values(outcome, gpt_units());
    double distance = 0;
    for (std::size_t i = 0; i < whole.size(); ++i) distance += std::abs(whole[i] - ddp.check().values[0][i]);
    distance /= static_cast<double>(whole.size());
    return distance < 2e-3 ? "" : fmt::format("values lie {:.4f} from those of an fp32 run on average", distance);
  };
  run_cases(program, judge, {.ranks = {1, 2, 3}, .sizes = sizes_of({8}), .unit = "sequence"});
}

}  // namespace
}  // namespace lockstep::week22
