// All-reduce algorithms against each other, and on MPI against the library's own:
//
//   ./lab bench all_reduce --backend sim --machine dgx-a100 --ranks 8 --bytes 1KiB:64MiB
//   ./lab bench all_reduce --backend mpi --ranks 4 --bytes 64KiB --algorithm ring,library --json out.json
//   ./lab bench all_reduce --backend cuda --ranks 2,4,8 --bytes 1MiB,256MiB
//
// On one GPU (cuda) ranks share one memory, and its bandwidth is the bound: a message is a copy, which reads and writes
// each byte (2); an addition reads two and writes one (3). What all steps of an algorithm move that way, over the rate
// of a copy measured in the same run, is its traffic bound. Were each receive-and-add one pass (read both, write one: 3
// in place of 2 + 3), that would be the fused bound.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "bench/library_all_reduce.hpp"
#include "bench/support/bench.hpp"
#include "common/arithmetic.hpp"
#include "common/text/nearest.hpp"
#include "common/text/units.hpp"
#include "labs/week21_data_parallel/cost_model.hpp"
#include "labs/week21_data_parallel/naive_all_reduce.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::bench {
namespace {

struct Algorithm {
  std::string name;
  std::function<void(Rank, Slice)> sum;
  std::function<double(week21::CostModel, int ranks, double bytes)> seconds;  // empty: no formula
  bool counted = true;
};

std::vector<Algorithm> algorithms() {
  const Algorithm naive{"naive", week21::naive_all_reduce, week21::naive_all_reduce_seconds},
      ring{"ring", week21::ring_all_reduce, week21::ring_all_reduce_seconds};
  const auto library = library_all_reduce();
  if (!library) return {naive, ring};
  return {naive, ring, {"library", library, {}, false}};
}

bool shares_memory() { return std::string_view(backend_name()) == "cuda"; }

/// The yardstick of one GPU: every rank copies its array, all at once.
Contender device_copy(std::size_t elements) {
  return {.name = "device_copy",
          .prepare = [=](Rank me, Purpose) -> Prepared {
            Slice from = me.allocate(elements, DType::f32, Category::buffer);
            Slice to = me.allocate(elements, DType::f32, Category::buffer);
            fill(me, from, 1);
            return {.act = [=] { copy(me, to, from); }, .right = {}};
          },
          .counted = false};
}

/// What an algorithm's steps read and write on one GPU, all ranks together.
struct MemoryTraffic {
  double as_written = 0;  // a copy for each message, and every addition apart
  double fused = 0;       // receive-and-add in one pass
};
/// Each sum of p arrays takes p − 1 additions of the whole array, wherever they happen.
MemoryTraffic memory_traffic(const Measurement& measurement, int ranks, double bytes) {
  const double sent = static_cast<double>(measurement.bytes_sent), added = (ranks - 1) * bytes;
  return {.as_written = 2 * sent + 3 * added, .fused = 2 * (sent - added) + 3 * added};
}

/// Adds the bounds to a row of one GPU. The yardstick is the last of the group.
void set_bounds(Row& row, const std::vector<Measurement>& group, std::size_t i, int ranks, double bytes) {
  const double rate = 2 * ranks * bytes / group.back().seconds.value;
  row.set("copy_bytes_per_second", rate);
  if (i + 1 == group.size() || !group[i].counted) return;
  const MemoryTraffic traffic = memory_traffic(group[i], ranks, bytes);
  const double bound = traffic.as_written / rate, seconds = group[i].seconds.value;
  row.set("traffic_bytes", traffic.as_written).set("predicted_seconds", bound);
  row.set("fraction_of_traffic_bound", bound / seconds);
  row.set("fraction_of_fused_bound", traffic.fused / rate / seconds);
}

/// What rank r puts into element i: small whole numbers, so that any order of adding gives the same sum.
float input(int rank, std::size_t element) { return static_cast<float>(rank % 7 + static_cast<int>(element % 5)); }

std::vector<float> inputs(int rank, std::size_t elements) {
  std::vector<float> values(elements);
  for (std::size_t i = 0; i < elements; ++i) values[i] = input(rank, i);
  return values;
}

bool is_the_sum(const std::vector<float>& values, int ranks) {
  int of_ranks = 0;
  for (int rank = 0; rank < ranks; ++rank) of_ranks += rank % 7;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != static_cast<float>(of_ranks + ranks * static_cast<int>(i % 5))) return false;
  return true;
}

Prepared prepare(const Algorithm& algorithm, std::size_t elements, Rank me, Purpose purpose) {
  Slice data = me.allocate(elements, DType::f32, Category::gradient);
  if (purpose == Purpose::verify)
    upload(me, data, inputs(me.rank(), elements));
  else
    fill(me, data, 0);  // so that repeated sums stay finite
  return {.act = [=] { algorithm.sum(me, data); }, .right = [=] { return is_the_sum(to_host(me, data), me.size()); }};
}

std::vector<Algorithm> chosen(const std::vector<std::string>& names) {
  std::vector<Algorithm> all = algorithms(), result;
  std::vector<std::string> known;
  for (const Algorithm& algorithm : all) known.push_back(algorithm.name);
  for (const std::string& name : names) {
    if (name == "all") continue;
    auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end()) throw Error(Verdict::usage, unknown_name("algorithm", name, known));
    result.push_back(all[static_cast<std::size_t>(found - known.begin())]);
  }
  return names.empty() || names == std::vector<std::string>{"all"} ? all : result;
}

void add_size(Bench& bench, const std::vector<Algorithm>& algorithms, int ranks, std::uint64_t bytes) {
  if (bytes % 4 != 0) throw Error(Verdict::usage, fmt::format("{} bytes are no whole number of fp32 elements", bytes));
  const LinkPrices prices = shares_memory() ? LinkPrices{} : bench.prices(ranks);
  const week21::CostModel cost{prices.alpha, prices.beta, prices.gamma, prices.launch};
  std::vector<Contender> contenders;
  for (const Algorithm& algorithm : algorithms) {
    Contender contender{.name = algorithm.name,
                        .prepare = [=](Rank me, Purpose purpose) { return prepare(algorithm, bytes / 4, me, purpose); },
                        .counted = algorithm.counted};
    if (algorithm.seconds && !shares_memory())
      contender.predicted_seconds = algorithm.seconds(cost, ranks, static_cast<double>(bytes));
    contenders.push_back(std::move(contender));
  }
  if (shares_memory()) contenders.push_back(device_copy(bytes / 4));
  bench.add(fmt::format("{} ranks/{}", ranks, format_bytes(static_cast<double>(bytes))), bench.run_options(ranks),
            contenders, [=](const std::vector<Measurement>& group, std::size_t i, Row& row) {
              row.set("bytes", bytes);
              if (shares_memory()) set_bounds(row, group, i, ranks, static_cast<double>(bytes));
              if (group[i].contender == "device_copy") return;
              const double seconds = group[i].seconds.value;
              const auto bandwidth = week21::bandwidth(ranks, static_cast<double>(bytes), seconds);
              row.set("algbw_gb_per_s", bandwidth.algorithm / 1e9).set("busbw_gb_per_s", bandwidth.bus / 1e9);
              if (group[i].wall_seconds > 0)
                row.set("messages_per_wall_second", static_cast<double>(group[i].messages) / group[i].wall_seconds);
            });
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep;
  std::string bytes = "1KiB:16MiB";
  std::vector<std::string> names;
  auto declare = [&](CommandLine& line) {
    line.add("--bytes", bytes, "of the array: a size, several with commas, or FIRST:LAST doubling");
    line.add("--algorithm", names, "naive, ring, library (MPI's own), all; several with commas; default all");
  };
  return bench::bench_main("all_reduce", "All-reduce algorithms: time, bandwidth and prediction.", argc, argv, declare,
                           [&](bench::Bench& bench) {
                             auto algorithms = bench::chosen(names);
                             for (int ranks : bench.ranks())
                               for (std::uint64_t size : parse_byte_sizes(bytes))
                                 bench::add_size(bench, algorithms, ranks, size);
                             bench.run();
                           });
}
