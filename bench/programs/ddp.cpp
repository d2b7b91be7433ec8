// The data-parallel training step: the cost of communication, and the part of it that overlap hides.
//
//   ./lab bench ddp --machine dgx-a100 --ranks 8 --model gpt2-124m --phantom --bucket-bytes 1MiB,25MiB
//   ./lab bench ddp --backend mpi --ranks 4 --emulate laptop
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/programs/ddp_step.hpp"
#include "bench/support/bench.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/numbers.hpp"
#include "common/support/text/units.hpp"
#include "labs/week21_data_parallel/cost_model.hpp"

namespace lockstep::bench {
namespace {

struct DdpProgramOptions : ModelOptions {
  std::string buckets;  // sizes; empty: PyTorch's 25 MiB, less for small models
  std::vector<std::string> microbatches{"1"};
};

const std::vector<Variant> kVariants = {Variant::compute, Variant::sequential, Variant::overlapped,
                                        Variant::communication};

const Measurement& of(const std::vector<Measurement>& group, Variant variant) {
  return group[static_cast<std::size_t>(std::find(kVariants.begin(), kVariants.end(), variant) - kVariants.begin())];
}

/// --batch is the sequences per rank.
DdpShape shape_of(const DdpProgramOptions& o, int ranks, std::uint64_t bucket_bytes) {
  StepShape shape = o.shape();
  shape.sequences *= static_cast<std::size_t>(ranks);
  return ddp_shape(shape, bucket_bytes);
}

std::vector<std::uint64_t> bucket_sizes(const DdpProgramOptions& o) {
  if (o.buckets.empty()) return {0};
  const auto sizes = parse_byte_sizes(o.buckets);
  if (std::find(sizes.begin(), sizes.end(), 0u) != sizes.end())
    throw Error(Verdict::usage, "--bucket-bytes 0: a bucket holds at least one byte");
  return sizes;
}

void add_step(Bench& bench, const DdpProgramOptions& o, int ranks, std::uint64_t bucket_bytes, int microbatches) {
  DdpShape shape = shape_of(o, ranks, bucket_bytes);
  shape.microbatches = microbatches;
  bucket_bytes = shape.ddp.bucket_bytes;
  const RunOptions options = bench.run_options(ranks);
  const LinkPrices prices = bench.prices(ranks);
  const SerialStep serial = profile_serial_step(options, shape, ranks);
  auto contenders = step_contenders(kVariants, shape, serial, prices, options);
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    contenders[i].drawn = kVariants[i] == Variant::sequential || kVariants[i] == Variant::overlapped;
    contenders[i].title = fmt::format("One DDP step of {} on {} of {}, {} overlap", o.model, counted(ranks, "rank"),
                                      options.machine.name, kVariants[i] == Variant::sequential ? "without" : "with");
    contenders[i].predict = [=](const LinkPrices& now) {
      return predicted_seconds(serial, kVariants[i], now, ranks, has_spare_cores(options));
    };
  }
  const std::size_t parameters = shape.model.parameters(), bytes = parameters * bytes_of(shape.model.storage);
  bench.add(fmt::format("{} ranks/{} buckets/{}", ranks, format_bytes(static_cast<double>(bucket_bytes)), microbatches),
            options, contenders, [=](const std::vector<Measurement>& group, std::size_t i, Row& row) {
              const double compute = of(group, Variant::compute).seconds.value;
              const double communication = of(group, Variant::communication).seconds.value;
              const bool step = kVariants[i] == Variant::sequential || kVariants[i] == Variant::overlapped;
              const double exposed = step ? group[i].seconds.value - compute : std::nan("");
              const auto bandwidth = week21::bandwidth(ranks, static_cast<double>(bytes), communication);
              row.set("model", o.model).set("parameters", parameters).set("bytes", bytes);
              row.set("tokens_per_rank", static_cast<std::size_t>(o.batch) * shape.length);
              row.set("microbatches", microbatches).set("bucket_bytes", bucket_bytes);
              row.set("buckets", serial.buckets.size());
              row.set("compute_seconds", compute).set("communication_seconds", communication);
              row.set("exposed_seconds", exposed);
              // Outside 0 to 1 other effects (noise, shared cores) outweigh communication: no fraction is reported.
              const double hidden = communication > 0 ? 1 - exposed / communication : std::nan("");
              row.set("hidden_fraction", hidden >= -0.05 && hidden <= 1.05 ? hidden : std::nan(""));
              row.set("algbw_gb_per_s", bandwidth.algorithm / 1e9).set("busbw_gb_per_s", bandwidth.bus / 1e9);
            });
}

void measure_steps(Bench& bench, const DdpProgramOptions& o) {
  for (int ranks : bench.ranks())
    for (std::uint64_t bucket : bucket_sizes(o))
      for (const std::string& count : o.microbatches)
        add_step(bench, o, ranks, bucket, count_in("--microbatches", count, o.batch));
  bench.run();
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep;
  bench::DdpProgramOptions o{{.batch = 4}};
  auto declare = [&](CommandLine& line) {
    o.declare(line, "sequences per rank");
    line.add("--bucket-bytes", o.buckets,
             "sizes of gradient buckets; default an eighth of the gradients, at most 25 MiB");
    line.add("--microbatches", o.microbatches, "gradient accumulation: backward passes per averaging");
  };
  return bench::bench_main("ddp", "The data-parallel step, with and without overlap.", argc, argv, declare,
                           [&](bench::Bench& bench) { bench::measure_steps(bench, o); });
}
