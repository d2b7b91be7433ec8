// Gathering results of ranks at the end, however long they are.
#include "common/backends/mpi/gather.hpp"

#include <gtest/gtest.h>

#include <climits>
#include <numeric>

namespace lockstep::mpi {
namespace {

/// Above 2 GiB in total, and above 4 GiB on one rank: no round overflows an int, and all bytes travel once.
TEST(Gather, NoRoundHasMoreBytesThanMpiCanCount) {
  const std::vector<std::size_t> lengths{std::size_t{1} << 31, 0, 5'000'000'000, 17};
  std::vector<std::size_t> arrived(lengths.size());
  const std::size_t share = INT_MAX / lengths.size();
  for (std::size_t done = 0; done < lengths[2]; done += share) {
    const GatherRound round = gather_round(lengths, done, INT_MAX);
    std::size_t total = 0;
    for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
      ASSERT_GE(round.counts[rank], 0) << "rank " << rank << " after " << done << " bytes";
      ASSERT_EQ(static_cast<std::size_t>(round.offsets[rank]), total);
      total += static_cast<std::size_t>(round.counts[rank]);
      arrived[rank] += static_cast<std::size_t>(round.counts[rank]);
    }
    ASSERT_LE(total, static_cast<std::size_t>(INT_MAX));
  }
  EXPECT_EQ(arrived, lengths);
}

std::string text_of(int rank) {
  std::string text(static_cast<std::size_t>(rank * rank), '\0');
  std::iota(text.begin(), text.end(), static_cast<char>(rank));
  return text;
}

/// The bytes are the same whether they fit in one round or need many; every process checks its own.
TEST(Gather, RoundsPutTogetherAreWhatEachRankSent) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  std::vector<std::string> expected;
  for (int each = 0; each < ranks; ++each) expected.push_back(text_of(each));
  int wrong = 0;
  for (const int most : {ranks, 3 * ranks, 1'000'000}) {
    wrong += gather(MPI_COMM_WORLD, text_of(rank), true, static_cast<std::size_t>(most)) != expected;
    const auto at_root = gather(MPI_COMM_WORLD, text_of(rank), false, static_cast<std::size_t>(most));
    wrong += at_root != (rank == 0 ? expected : std::vector<std::string>{});
  }
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_GT(ranks, 1);
  EXPECT_EQ(wrong, 0) << "gathers, over all ranks";
}

}  // namespace
}  // namespace lockstep::mpi
