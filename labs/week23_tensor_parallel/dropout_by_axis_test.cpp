// Tests of exercise 23.8, parts a and b: pieces, their draws, and keys. Part c and all parts together are in
// dropout_by_axis_block_test.cpp.
#include <algorithm>
#include <array>
#include <tuple>

#include "labs/week23_tensor_parallel/dropout_by_axis_testing.hpp"

namespace lockstep::week23::dropout_by_axis_test {
namespace {

// Part a --------------------------------------------------------------------------------------------------------------

/// Few sequences, so that some ranks have none; more; and attention's probabilities.
constexpr std::array<Activation, 3> kActivations{Activation{5, 3, 7}, {9, 4, 24}, {8, 1, 50}};
constexpr std::array<Split, 3> kSplits{Split::replicated, Split::rows, Split::columns};

std::string name_of(const Activation& all) {
  return fmt::format("{} sequences × {} × {} columns", all.sequences, counted(all.positions, "position"), all.width);
}
std::string name_of(Split split) {
  return split == Split::replicated ? "replicated" : split == Split::rows ? "rows split" : "columns split";
}
using dropout_by_axis_test::name_of;

/// f(activation, split, position, its right piece) for every piece of a rank, in the order of its results.
template <class F>
void for_pieces_of(const Layout& layout, int rank, const F& f) {
  for (const Activation& all : kActivations)
    for (const Split split : kSplits)
      for (int micro = 0; micro < layout.microbatches; ++micro) {
        const Position here = position_of(layout, rank, micro);
        f(all, split, here, right_piece(all, layout, here, split));
      }
}

std::string range_text(const char* what, ChunkRange range) {
  return range.size == 0 ? fmt::format("no {}", what)
                         : fmt::format("{} {} to {}", what, range.offset, range.offset + range.size - 1);
}
bool is_same(ChunkRange a, ChunkRange b) { return a.size == b.size && (a.size == 0 || a.offset == b.offset); }

std::string wrong_range(const char* what, ChunkRange is, ChunkRange right) {
  if (is_same(is, right)) return "";
  return fmt::format(
      "{}, expected {}{}", range_text(what, is), range_text(what, right),
      is.size == right.size ? ": as many, but counted from elsewhere than the global activation's first" : "");
}

TEST(Lab23_8a, PiecesAreWhereTheRanksElementsAre) {
  const auto program = [](Rank me, const Case& c) {
    Values seen;
    for_pieces_of(layout_of(c), me.rank(), [&](const Activation& all, Split split, const Position& here, const Piece&) {
      const Piece piece = piece_of(all, layout_of(c), here, split);
      for (const ChunkRange& range : {piece.rows, piece.columns})
        for (const std::size_t number : {range.offset, range.size}) seen.push_back(static_cast<double>(number));
    });
    return seen;
  };
  const auto judge = [](const Case& c, const Outcome& outcome) {
    std::string wrong;
    for (int rank = 0; rank < c.ranks; ++rank) {
      const Values& seen = outcome.values[static_cast<std::size_t>(rank)];
      std::size_t at = 0;
      const auto next = [&] { return static_cast<std::size_t>(seen.at(at++)); };
      for_pieces_of(layout_of(c), rank,
                    [&](const Activation& all, Split split, const Position& here, const Piece& right) {
                      const ChunkRange rows{next(), next()}, columns{next(), next()};
                      std::string range = wrong_range("rows", rows, right.rows);
                      if (range.empty() && right.rows.size > 0) range = wrong_range("columns", columns, right.columns);
                      if (range.empty() || !wrong.empty()) return;
                      wrong = fmt::format("{}: of {}, {}, rank {} {} has {}", name_of(layout_of(c)), name_of(all),
                                          name_of(split), rank, name_of(here), range);
                    });
    }
    return wrong;
  };
  run_cases(program, judge, plan_of_layouts());
}

constexpr float kMostDropped = 0.75f;  // not 0.5: 1 − p must not do as well, and the factor is 4

Random key_of_test() { return {.seed = 8 + testing::drawn({23, 8}, 1000), .tensor = kParameterTensors + 3, .step = 2}; }
float value_of(std::size_t number) { return static_cast<float>(number + 1); }

/// Results of drop_piece for the right pieces: into another slice, and then once more, in place.
Values dropped_pieces(Rank me, const Case& c) {
  Values seen;
  for_pieces_of(layout_of(c), me.rank(), [&](const Activation& all, Split, const Position&, const Piece& piece) {
    std::vector<float> values;
    for (std::size_t i = 0; i < piece.rows.size; ++i)
      for (std::size_t j = 0; j < piece.columns.size; ++j)
        values.push_back(value_of((piece.rows.offset + i) * all.width + piece.columns.offset + j));
    Slice x = unwritten(me, values.size()), y = unwritten(me, values.size());
    upload(me, x, values);
    drop_piece(me, y, x, all, piece, key_of_test(), kMostDropped);
    append(seen, to_host(me, y));
    drop_piece(me, x, x, all, piece, key_of_test(), kMostDropped);
    append(seen, to_host(me, x));
  });
  return seen;
}

/// The number of an element in the global activation; and as mistakes number it.
std::size_t number_of(const Activation& all, const Piece& piece, std::size_t row, std::size_t column) {
  return (piece.rows.offset + row) * all.width + piece.columns.offset + column;
}
struct Numbering {
  std::size_t (*number)(const Activation& all, const Piece& piece, std::size_t row, std::size_t i);
  const char* meaning;
};
const std::vector<Numbering>& wrong_numberings() {
  static const std::vector<Numbering> all{
      {[](const Activation&, const Piece& piece, std::size_t row, std::size_t i) {
         return row * piece.columns.size + i;
       },
       "numbers count from the piece's own first element, so ranks with different elements drop the same ones"},
      {[](const Activation& all, const Piece& piece, std::size_t row, std::size_t i) {
         return (piece.rows.offset + row) * all.width + i;
       },
       "the first column is left out, so every tp rank drops the same ones of its own columns"},
      {[](const Activation&, const Piece& piece, std::size_t row, std::size_t i) {
         return (piece.rows.offset + row) * piece.columns.size + piece.columns.offset + i;
       },
       "the next row of a piece begins all.width numbers further on"},
      {[](const Activation& all, const Piece& piece, std::size_t row, std::size_t i) {
         return piece.rows.offset * all.width + piece.columns.offset + row * piece.columns.size + i;
       },
       "the next row of a piece begins all.width numbers further on"},
      {[](const Activation& all, const Piece& piece, std::size_t row, std::size_t i) {
         return number_of(all, piece, piece.columns.size == all.width ? row : 0, i);
       },
       "every row has the first one's draws"}};
  return all;
}

/// Draws by number.
std::vector<float> draws_of(std::uint64_t more_seed) {
  Random key = key_of_test();
  key.seed += more_seed;
  return factors_of(key, kMostDropped, 4096);
}

/// The results of all ranks, piece by piece.
struct Dropped {
  Layout layout;
  const Outcome& outcome;

  /// f(rank, activation, split, position, piece, its elements after the first call; the second's follow them).
  template <class F>
  void for_each(const F& f) const {
    for (int rank = 0; rank < static_cast<int>(outcome.values.size()); ++rank) {
      const double* at = outcome.values[static_cast<std::size_t>(rank)].data();
      for_pieces_of(layout, rank, [&](const Activation& all, Split split, const Position& here, const Piece& piece) {
        f(rank, all, split, here, piece, at);
        at += 2 * piece.rows.size * piece.columns.size;
      });
    }
  }
  /// True if every element is its value times factor(rank, activation, piece, row, column), both of the piece.
  template <class F>
  bool is(const F& factor) const {
    bool is = true;
    for_each([&](int rank, const Activation& all, Split, const Position&, const Piece& piece, const double* seen) {
      for (std::size_t n = 0; n < piece.rows.size * piece.columns.size; ++n) {
        const std::size_t row = n / piece.columns.size, column = n % piece.columns.size;
        is = is && seen[n] == static_cast<double>(value_of(number_of(all, piece, row, column)) *
                                                  factor(rank, all, piece, row, column));
      }
    });
    return is;
  }
};

/// Says what all of it is instead; "" if that cannot be told.
std::string cause_of(const Dropped& dropped, const std::vector<float>& draws) {
  for (const Numbering& wrong : wrong_numberings())
    if (dropped.is([&](int, const Activation& all, const Piece& piece, std::size_t row, std::size_t column) {
          return draws[wrong.number(all, piece, row, column)];
        }))
      return std::string(": ") + wrong.meaning;
  for (const auto& [times, meaning] :
       {std::pair(1 / (1 - kMostDropped), ": the right ones are dropped, and `dropout` has divided by 1 − p already"),
        {1 - kMostDropped, ": the right ones are dropped, but not divided by 1 − p"}})
    if (dropped.is(
            [&, times = times](int, const Activation& all, const Piece& piece, std::size_t row, std::size_t column) {
              return times * draws[number_of(all, piece, row, column)];
            }))
      return meaning;
  std::vector<std::vector<float>> by_rank;
  for (std::size_t rank = 0; rank < dropped.outcome.values.size(); ++rank) by_rank.push_back(draws_of(rank));
  if (dropped.is([&](int rank, const Activation& all, const Piece& piece, std::size_t row, std::size_t column) {
        return by_rank[static_cast<std::size_t>(rank)][number_of(all, piece, row, column)];
      }))
    return ": every rank has a seed of its own, so tp ranks with the same elements drop different ones";
  return "";
}

std::string wrong_drops(const Dropped& dropped, const std::vector<float>& draws) {
  std::string wrong;
  dropped.for_each([&](int rank, const Activation& all, Split split, const Position& here, const Piece& piece,
                       const double* seen) {
    const std::size_t size = piece.rows.size * piece.columns.size;
    for (std::size_t n = 0; n < 2 * size && wrong.empty(); ++n) {
      const std::size_t row = n % size / piece.columns.size, column = n % size % piece.columns.size,
                        number = number_of(all, piece, row, column);
      const float value = value_of(number), right = value * draws[number];
      if (seen[n] == static_cast<double>(right)) continue;
      wrong = fmt::format("{}: of {}, {}, rank {} {} makes {:g} of row {}, column {}, which is {:g}, expected {:g}{}",
                          name_of(dropped.layout), name_of(all), name_of(split), rank, name_of(here), seen[n],
                          piece.rows.offset + row, piece.columns.offset + column, value, right,
                          n < size ? cause_of(dropped, draws)
                                   : ": the first call with the same arguments was right, so something has moved on "
                                     "since");
    }
  });
  return wrong;
}

TEST(Lab23_8a, EveryLayoutDropsTheSameElements) {
  const auto judge = [draws = draws_of(0)](const Case& c, const Outcome& outcome) {
    return wrong_drops({layout_of(c), outcome}, draws);
  };
  run_cases(dropped_pieces, judge, plan_of_layouts());
}

TEST(Lab23_8a, OneCallForWholeRows) {
  constexpr double kLaunch = 1;  // seconds, besides which nothing counts
  const auto program = [](Rank me, const Case& c) {
    Values calls;
    for_pieces_of(layout_of(c), me.rank(), [&](const Activation& all, Split, const Position&, const Piece& piece) {
      const Slice x = unwritten(me, piece.rows.size * piece.columns.size);
      const double before = me.now();
      drop_piece(me, x, x, all, piece, key_of_test(), kMostDropped);
      calls.push_back(std::round((me.now() - before) / kLaunch));
    });
    return calls;
  };
  const auto judge = [](const Case& c, const Outcome& outcome) {
    std::string wrong;
    for (int rank = 0; rank < c.ranks; ++rank) {
      std::size_t at = 0;
      for_pieces_of(layout_of(c), rank, [&](const Activation& all, Split split, const Position&, const Piece& piece) {
        const bool none = piece.rows.size * piece.columns.size == 0, whole = piece.columns.size == all.width;
        const std::size_t right = none ? 0 : whole ? 1 : piece.rows.size;
        const double calls = outcome.values[static_cast<std::size_t>(rank)].at(at++);
        if (calls <= static_cast<double>(right) || !wrong.empty()) return;
        wrong = fmt::format(
            "{}: of {}, {}, rank {} took {:g} operations for {} and {}, expected {}: where columns are "
            "whole, rows are neighbours",
            name_of(layout_of(c)), name_of(all), name_of(split), rank, calls, range_text("rows", piece.rows),
            range_text("columns", piece.columns), right);
      });
    }
    return wrong;
  };
  CasePlan plan = plan_of_layouts();
  plan.simulator_only = "operations are counted by their launches, in virtual time";
  plan.adjust = [](const Case&, RunOptions& options) {
    options.phantom = true;
    options.machine.launch = kLaunch;
  };
  run_cases(program, judge, plan);
}

// Part b --------------------------------------------------------------------------------------------------------------

constexpr std::array<const char*, 5> kPlaceNames{"embedding", "probabilities", "attention", "hidden", "mlp"};
struct Use {
  std::uint64_t seed, step;
  std::size_t layer, place;
  std::string name() const {
    return fmt::format("(seed {}, step {}, layer {}, {})", seed, step, layer, kPlaceNames[place]);
  }
};
std::vector<Use> uses() {
  std::vector<Use> all;
  const auto add = [&](std::uint64_t seed, std::uint64_t step, std::size_t layer) {
    for (std::size_t place = 0; place < kPlaceNames.size(); ++place) all.push_back({seed, step, layer, place});
  };
  for (const std::uint64_t seed : {0, 1, 2, 5, 1234})
    for (const std::uint64_t step : {0, 1, 2, 5, 6, 100'000})
      for (const std::size_t layer : {0, 1, 2, 5, 6, 95}) add(seed, step, layer);
  // An answer that leaves room for so many layers in front of each place or step repeats the keys of layer 0.
  for (const std::uint64_t step : {0, 1, 2, 100'000})
    for (const std::size_t layer : {96, 100, 127, 128, 200, 255, 256, 512, 1000, 1024, 4096, 10'000, 65'535})
      add(2, step, layer);
  return all;
}

/// Seed, tensor, step and first, each in two halves.
constexpr std::size_t kNumbers = 8;
void append_key(Values& seen, const Random& key) {
  for (const std::uint64_t number : {key.seed, key.tensor, key.step, key.first})
    for (const std::uint64_t half : {number >> 32, number & 0xffffffffu}) seen.push_back(static_cast<double>(half));
}

TEST(Lab23_8b, EveryUseHasAKeyOfItsOwn) {
  const auto program = [](Rank, const Case&) {
    Values seen;
    const std::vector<Use> all = uses();
    for (const Use& use : all)
      append_key(seen, dropout_key(use.seed, use.step, use.layer, static_cast<Place>(use.place)));
    for (auto use = all.rbegin(); use != all.rend(); ++use)  // as a backward pass asks for them
      append_key(seen, dropout_key(use->seed, use->step, use->layer, static_cast<Place>(use->place)));
    return seen;
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const std::vector<Use> all = uses();
    using Key = std::array<double, kNumbers>;
    const auto key_at = [&](std::size_t rank, std::size_t n) {
      Key key;
      std::copy_n(outcome.values[rank].begin() + static_cast<std::ptrdiff_t>(n * kNumbers), kNumbers, key.begin());
      return key;
    };
    std::vector<std::pair<Key, std::size_t>> keys;
    for (std::size_t n = 0; n < all.size(); ++n) {
      const Key key = key_at(0, n);
      for (std::size_t rank = 0; rank < static_cast<std::size_t>(c.ranks); ++rank)
        if (key_at(rank, n) != key || key_at(rank, 2 * all.size() - 1 - n) != key)
          return fmt::format(
              "{}: rank {} gets another key than rank 0, or than it got before: a key depends on its four "
              "arguments only",
              all[n].name(), rank);
      if (key[6] != 0 || key[7] != 0)
        return fmt::format("{}: `first` is {:.0f}, expected 0", all[n].name(), key[6] * 0x1p32 + key[7]);
      if (key[2] == 0 && key[4] == 0 && key[5] == 0)
        return fmt::format(
            "{}: tensor {:.0f} in step 0 is a parameter's key. Tensors from kParameterTensors on are free",
            all[n].name(), key[3]);
      keys.push_back({key, n});
    }
    std::sort(keys.begin(), keys.end());
    for (std::size_t n = 1; n < keys.size(); ++n)
      if (keys[n].first == keys[n - 1].first)
        return fmt::format("{} and {} have the same key, so they drop the same elements",
                           all[keys[n - 1].second].name(), all[keys[n].second].name());
    return "";
  };
  run_cases(program, judge, {.ranks = {1, 4}, .sizes = sizes_of({uses().size()}), .unit = "use"});
}

TEST(Lab23_8b, HeadsAndHiddenUnitsAreSplit) {
  const auto program = [](Rank, const Case&) {
    Values seen;
    for (const bool sequence_parallel : {false, true})
      for (std::size_t place = 0; place < kPlaceNames.size(); ++place)
        seen.push_back(static_cast<double>(split_of(static_cast<Place>(place), sequence_parallel)));
    return seen;
  };
  const auto judge = [](const Case&, const Outcome& outcome) -> std::string {
    for (std::size_t i = 0; i < 2 * kPlaceNames.size(); ++i) {
      const std::size_t place = i % kPlaceNames.size();
      const bool columns = place == 1 || place == 3, sequence_parallel = i >= kPlaceNames.size();
      const Split right = columns ? Split::columns : sequence_parallel ? Split::rows : Split::replicated;
      const auto is = static_cast<Split>(outcome.values[0].at(i));
      if (is != right)
        return fmt::format("{}, {} sequence parallelism: {}, expected {}. {}", kPlaceNames[place],
                           sequence_parallel ? "with" : "without", name_of(is), name_of(right),
                           columns             ? "A rank computes its own heads and hidden units, of all rows"
                           : sequence_parallel ? "Between the layers, each tp rank has its own rows"
                                               : "Between the layers, all tp ranks have the same");
    }
    return "";
  };
  run_cases(program, judge, {.ranks = {1}, .sizes = sizes_of({2 * kPlaceNames.size()}), .unit = "place"});
}

}  // namespace
}  // namespace lockstep::week23::dropout_by_axis_test
