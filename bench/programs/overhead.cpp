// The communication-overhead chart: the fraction of a data-parallel step spent on averaging gradients, for models of
// several sizes over links of several bandwidths. Communication is simulated (on MPI: measured, over this computer's
// link); computing takes 6 FLOP per parameter and token.
//
//   ./lab bench overhead --ranks 2 --parameters 100e6,1e9 --links 25,235 --json chart.json
#include <fmt/format.h>

#include <cmath>

#include "bench/programs/collective_kinds.hpp"
#include "bench/support/bench.hpp"
#include "common/support/text/numbers.hpp"
#include "common/support/text/units.hpp"
#include "labs/week21_data_parallel/cost_model.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::bench {
namespace {

struct OverheadOptions {
  std::vector<std::string> parameters{"25e6", "100e6", "350e6", "1.3e9", "7e9"};
  std::vector<std::string> links{"1.25", "3", "6", "12.5", "25", "50", "100", "235", "450"};
  double tokens = 8192;
  double flop_per_second = 1e14;
  double latency = 5e-6;
};

std::vector<double> numbers(const std::string& option, const std::vector<std::string>& texts) {
  std::vector<double> values;
  for (const std::string& text : texts) values.push_back(number_in(option, text, 1e-9, 1e18));
  return values;
}

/// Returns a machine with one link level of this bandwidth, whose ranks add at an A100's memory bandwidth.
Machine linked(double latency, double bytes_per_second) {
  Machine machine = Machine::uniform(latency, 1 / bytes_per_second, 3 / 2e12);
  machine.name = fmt::format("{:g} GB/s", bytes_per_second / 1e9);
  return machine;
}

void add_point(Bench& bench, RunOptions options, const OverheadOptions& o, double parameters, double link) {
  const int ranks = options.ranks;
  const week21::Workload workload{.ranks = ranks, .tokens = o.tokens, .flop_per_second = o.flop_per_second};
  const week21::OverheadPoint point = week21::overhead_chart({parameters}, {link}, workload).front();
  const auto elements = static_cast<std::size_t>(parameters);
  const CollectiveAlgorithm by_ring{
      .act = [](Rank me, const Arrays& arrays) { week21::ring_all_reduce(me, arrays.to); }};
  Contender ring{.name = "ring",
                 .prepare =
                     [=](Rank me, Purpose purpose) {
                       return prepare_collective(me, purpose, Collective::all_reduce, by_ring, elements);
                     },
                 .predicted_seconds = point.communication_seconds};
  bench.add(fmt::format("{:g} M/{:.3g} GB/s", parameters / 1e6, link / 1e9), options, {ring},
            [=](const std::vector<Measurement>& group, std::size_t i, Row& row) {
              const double seconds = group[i].seconds.value;
              const auto bandwidth = week21::bandwidth(ranks, static_cast<double>(elements) * 4, seconds);
              const double efficiency = week21::communication_efficiency(point.compute_seconds, seconds);
              row.set("parameters", elements).set("bytes", elements * 4).set("link_gb_per_s", link / 1e9);
              row.set("tokens_per_rank", o.tokens).set("flop_per_second", o.flop_per_second);
              row.set("compute_seconds", point.compute_seconds).set("efficiency", efficiency);
              row.set("predicted_efficiency", point.efficiency).set("overhead_fraction", 1 - efficiency);
              row.set("algbw_gb_per_s", bandwidth.algorithm / 1e9).set("busbw_gb_per_s", bandwidth.bus / 1e9);
            });
}

void measure_chart(Bench& bench, const OverheadOptions& o, bool chosen_links) {
  const bool simulated = time_is_virtual();
  if (!simulated && chosen_links)
    throw Error(Verdict::usage, "--links: a bandwidth can only be chosen in the simulator; MPI has this computer's");
  for (int ranks : bench.ranks()) {
    RunOptions options = bench.run_options(ranks);
    if (simulated) options.phantom = true;
    const std::vector<double> links = simulated    ? numbers("--links", o.links)
                                      : ranks == 1 ? std::vector<double>{}
                                                   : std::vector<double>{1e-9 / bench.prices(ranks).beta};
    for (double parameters : numbers("--parameters", o.parameters))
      for (double link : links) {
        if (simulated) options.machine = linked(o.latency, link * 1e9);
        add_point(bench, options, o, parameters, link * 1e9);
      }
  }
  bench.run();
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep;
  bench::OverheadOptions o;
  const std::vector<std::string> usual = o.links;
  if (!bench::time_is_virtual()) o.parameters = {"1e6", "4e6"};
  auto declare = [&](CommandLine& line) {
    line.add("--parameters", o.parameters, "parameters of the models; separate several with commas");
    line.add("--links", o.links, "simulator: link bandwidths in GB/s; separate several with commas");
    line.add("--tokens", o.tokens, "tokens per rank and step", Real{1e-9});
    line.add("--flop-per-second", o.flop_per_second, "FLOP per second that a rank reaches in training", Real{1e-9});
    line.add("--latency", o.latency, "simulator: latency of a message, in seconds", Real{0});
  };
  return bench::bench_main("overhead", "Communication overhead: model size × bandwidth.", argc, argv, declare,
                           [&](bench::Bench& bench) { bench::measure_chart(bench, o, o.links != usual); });
}
