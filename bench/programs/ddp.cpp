// The data-parallel training step: what communication costs, and how much of it overlap hides.
//
//   ./lab bench ddp --machine dgx-a100 --ranks 8 --model gpt2-124m --phantom --bucket-bytes 1MiB,25MiB
//   ./lab bench ddp --backend mpi --ranks 4 --emulate laptop
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/programs/ddp_step.hpp"
#include "bench/support/bench.hpp"
#include "common/support/text/numbers.hpp"
#include "common/support/text/units.hpp"
#include "labs/week21_data_parallel/cost_model.hpp"

namespace lockstep::bench {
namespace {

struct DdpProgramOptions {
  std::string model = "tiny";
  int batch = 4;        // sequences of each rank
  int sequence = 0;     // tokens; 0: the model's context
  std::string buckets;  // sizes; empty: PyTorch's 25 MiB, less for small models
  std::vector<std::string> microbatches{"1"};
  std::string timeline;  // prefix of SVG files
};

const std::vector<Variant> kVariants = {Variant::compute, Variant::sequential, Variant::overlapped,
                                        Variant::communication};

const Measurement& of(const std::vector<Measurement>& group, Variant variant) {
  return group[static_cast<std::size_t>(std::find(kVariants.begin(), kVariants.end(), variant) - kVariants.begin())];
}

StepShape shape_of(const DdpProgramOptions& o, int ranks) {
  StepShape shape{.model = gpt_preset(o.model),
                  .sequences = static_cast<std::size_t>(o.batch) * static_cast<std::size_t>(ranks)};
  shape.length = o.sequence ? static_cast<std::size_t>(o.sequence) : shape.model.context;
  shape.model.context = std::max(shape.model.context, shape.length);
  return shape;
}

std::vector<std::uint64_t> bucket_sizes(const DdpProgramOptions& o, std::size_t gradient_bytes) {
  if (!o.buckets.empty()) {
    const auto sizes = parse_byte_sizes(o.buckets);
    if (std::find(sizes.begin(), sizes.end(), 0u) != sizes.end())
      throw Error(Verdict::usage, "--bucket-bytes 0: a bucket holds at least one byte");
    return sizes;
  }
  return {std::min<std::uint64_t>(std::uint64_t{25} << 20, gradient_bytes / 8 + 1)};
}

int microbatch_count(const std::string& text, int batch) {
  const int value = text.find_first_not_of("0123456789") == std::string::npos && text.size() < 6 && !text.empty()
                        ? std::stoi(text)
                        : 0;
  if (value < 1 || value > batch)
    throw Error(Verdict::usage,
                fmt::format("--microbatches {}: whole numbers from 1 to the {} sequences of a rank", text, batch));
  return value;
}

void add_step(Bench& bench, const DdpProgramOptions& o, int ranks, std::uint64_t bucket_bytes, int microbatches) {
  StepShape shape = shape_of(o, ranks);
  shape.microbatches = microbatches;
  shape.ddp.bucket_bytes = bucket_bytes;
  shape.ddp.first_bucket_bytes = std::min<std::size_t>(bucket_bytes, std::size_t{1} << 20);
  const RunOptions options = bench.run_options(ranks);
  const LinkPrices prices = bench.prices(ranks);
  const SerialStep serial = profile_serial_step(options, shape, ranks);
  auto contenders = step_contenders(kVariants, shape, serial, prices, options);
  for (std::size_t i = 0; i < contenders.size(); ++i)
    contenders[i].predict = [=](const LinkPrices& now) {
      return step_contenders(kVariants, shape, serial, now, options)[i].predicted_seconds;
    };
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
              // Outside 0 to 1 something else weighs more than communication (noise, shared cores): no fraction.
              const double hidden = communication > 0 ? 1 - exposed / communication : std::nan("");
              row.set("hidden_fraction", hidden >= -0.05 && hidden <= 1.05 ? hidden : std::nan(""));
              row.set("algbw_gb_per_s", bandwidth.algorithm / 1e9).set("busbw_gb_per_s", bandwidth.bus / 1e9);
            });
}

/// The events of one step, which each rank began when `began` says and the first at `begin`, from 0 on. Of what a rank
/// had begun before, the messages are left out: their other ends may not be here.
Trace cut(const Trace& whole, const std::vector<Values>& began, double begin, double end) {
  Trace trace{.queues = whole.queues, .events = {}, .closures = whole.closures};
  trace.modelled = whole.modelled;
  trace.eager_bytes = whole.eager_bytes;
  for (TraceEvent event : whole.events) {
    if (event.end <= begin || event.begin >= end) continue;
    if (event.begin < began[static_cast<std::size_t>(event.rank)][0]) event.messages.clear();
    event.begin = std::max(event.begin, begin) - begin;
    event.end = std::min(event.end, end) - begin;
    trace.events.push_back(std::move(event));
  }
  return trace;
}

/// Draws one step without and one with overlap, of the first number of ranks and the first bucket size.
void draw_timelines(const Bench& bench, const DdpProgramOptions& o) {
  const int ranks = bench.ranks().front();
  StepShape shape = shape_of(o, ranks);
  const std::size_t bytes = shape.model.parameters() * bytes_of(shape.model.storage);
  shape.ddp.bucket_bytes = bucket_sizes(o, bytes).front();
  shape.ddp.first_bucket_bytes = std::min<std::size_t>(shape.ddp.bucket_bytes, std::size_t{1} << 20);
  RunOptions options = bench.run_options(ranks);
  options.trace = true;
  for (Variant variant : {Variant::sequential, Variant::overlapped}) {
    const Outcome outcome = run(options, [&](Rank me) -> Values {
      const Prepared step = prepare_step(me, shape, variant, Purpose::time);
      const double begin = me.now();
      step.act();
      return {begin, me.now()};
    });
    outcome.check();
    if (!is_judge()) continue;
    double begin = outcome.values[0][0], end = outcome.values[0][1];
    for (const Values& values : outcome.values) begin = std::min(begin, values[0]), end = std::max(end, values[1]);
    const Trace drawn = cut(outcome.trace, outcome.values, begin, end);
    const std::string title =
        fmt::format("One DDP step of {} on {} ranks of {}, {} overlap: {}", o.model, ranks, options.machine.name,
                    variant == Variant::sequential ? "without" : "with", format_seconds(end - begin));
    for (const char* kind : {"svg", "trace"})
      write_trace(drawn, fmt::format("{}_{}.{}", o.timeline, to_string(variant), kind), title);
  }
}

void measure_steps(Bench& bench, const DdpProgramOptions& o) {
  for (int ranks : bench.ranks()) {
    const StepShape shape = shape_of(o, ranks);
    for (std::uint64_t bucket : bucket_sizes(o, shape.model.parameters() * bytes_of(shape.model.storage)))
      for (const std::string& count : o.microbatches)
        add_step(bench, o, ranks, bucket, microbatch_count(count, o.batch));
  }
  if (!o.timeline.empty()) check_writable(o.timeline + "_overlap.svg");
  bench.run();
  if (!o.timeline.empty()) draw_timelines(bench, o);
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep;
  bench::DdpProgramOptions o;
  auto declare = [&](CommandLine& line) {
    line.add("--model", o.model, "a preset, as of ./lab train: tiny, small, gpt2-124m, …");
    line.add("--batch", o.batch, "sequences of each rank", kSequences);
    line.add("--sequence", o.sequence, "tokens of each; 0: the model's context", kTokens);
    line.add("--bucket-bytes", o.buckets,
             "sizes of gradient buckets; default an eighth of the gradients, at most 25 MiB");
    line.add("--microbatches", o.microbatches, "gradient accumulation: backward passes for one averaging");
    line.add("--timeline", o.timeline, "draw one step: PREFIX_no_overlap and PREFIX_overlap, .svg and .trace");
  };
  return bench::bench_main("ddp", "The data-parallel step, with and without overlap.", argc, argv, declare,
                           [&](bench::Bench& bench) { bench::measure_steps(bench, o); });
}
