// A hidden test of exercise 21.2, as an example: two arrays, one after the other, and the ends of the second stay as
// they are. Its suite, Lab21_2h, is part 21.2h of the course file beside it. It is compiled together with the
// exercise's own tests, so its helpers have a namespace of their own.
#include "labs/week21_data_parallel/all_reduce_testing.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week21::ring_all_reduce_hidden_test {
namespace {

constexpr float kEnd = -1;

Values sum_the_middle(Rank me, const Case& c) {
  std::vector<float> values = inputs_of(me.rank(), c.size, c.ranks);
  Slice first = uploaded(me, values);
  ring_all_reduce(me, first);
  values.insert(values.begin(), kEnd);
  values.push_back(kEnd);
  Slice second = uploaded(me, values);
  ring_all_reduce(me, second.cut(1, c.size));
  return host(me, second);
}

std::string wrong_middle(const Case& c, const Outcome& outcome) {
  for (int rank = 0; rank < c.ranks; ++rank)
    for (std::size_t i = 0; i < c.size + 2; ++i) {
      const bool end = i == 0 || i == c.size + 1;
      double expected = end ? kEnd : 0;
      for (int q = 0; q < c.ranks && !end; ++q) expected += input_of(q, i - 1, c.ranks);
      const double found = outcome.values[static_cast<std::size_t>(rank)][i];
      if (found != expected)
        return fmt::format("rank {}, element {} of the second array is {}, expected {}", rank, i, found, expected);
    }
  return "";
}

TEST(Lab21_2h, TheSecondOfTwoArraysIsSummedToo) { run_cases(sum_the_middle, wrong_middle); }

}  // namespace
}  // namespace lockstep::week21::ring_all_reduce_hidden_test
