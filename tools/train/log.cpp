#include "tools/train/log.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "common/gpt/data/model_file.hpp"
#include "common/support/json/quiet.hpp"
#include "common/support/json/whose_code.hpp"
#include "common/support/stats/stats.hpp"
#include "common/support/text/columns.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/units.hpp"
#include "tools/train/checkpoint.hpp"
#include "tools/train/expert_layers.hpp"
#include "tools/train/traffic.hpp"

namespace lockstep::train {

namespace {

std::string number(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : "–";
}

constexpr std::size_t kWide = 1000;  // nothing is left out

/// NaN has a sign, which says nothing.
std::string shown(double value) { return std::isnan(value) ? "NaN" : fmt::format("{}", value); }

/// Lines that begin with a label of ten columns, none wider than `columns`: the text after it is continued below
/// itself.
std::string folded(const std::string& text, std::size_t columns) {
  constexpr std::size_t kLabel = 10;
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line); out += '\n') {
    if (columns_of(line) <= columns || line.size() < kLabel || columns < 2 * kLabel) {
      out += line;
      continue;
    }
    std::string label = line.substr(0, kLabel);
    for (const std::string& part : wrapped(line.substr(kLabel), columns - kLabel)) {
      out += label + part;
      label = "\n" + std::string(kLabel, ' ');
    }
  }
  return out;
}

std::string short_count(double value) {
  if (value >= 1e12) return fmt::format("{:.3g} T", value / 1e12);
  if (value >= 1e9) return fmt::format("{:.3g} G", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.3g} M", value / 1e6);
  if (value >= 1e3) return fmt::format("{:.3g} k", value / 1e3);
  return fmt::format("{:.3g}", value);
}

std::uint64_t peak(const Outcome& outcome, Category category) {
  std::uint64_t most = 0;
  for (const RankLedger& ledger : outcome.ledgers) most = std::max(most, ledger.memory.peak_of(category));
  return most;
}

std::string bytes(const Memory& memory, Category category) {
  return format_bytes(static_cast<double>(memory.peak_of(category)));
}

std::string memory_line(const TrainPlan& plan, const Outcome& outcome) {
  std::vector<std::string> parts;
  for (const State& state : kState)
    parts.push_back(fmt::format("{} {} ({})", to_string(state.category),
                                format_bytes(static_cast<double>(peak(outcome, state.category))),
                                bytes(plan.peak, state.category)));
  std::string line = fmt::format("memory    per rank, peaks (predicted): {}\n", fmt::join(parts, ", "));
  if (plan.peak.peak != plan.training_peak.peak)
    line += fmt::format(
        "          peaks include the text sample at the end, for which rank 0 gathers the whole model; training alone: "
        "parameters {}, activations {}\n",
        bytes(plan.training_peak, Category::parameter), bytes(plan.training_peak, Category::activation));
  if (plan.step.has_experts() && plan.run.ranks > 1)
    line += "          activations are predicted as if every expert got equally many rows\n";
  return line;
}

/// Why a scale that one rank's gradients allow is too high for those of several.
std::string sooner(int ranks) {
  return fmt::format(
      "; the {} ranks' gradients are summed, then divided by {}: their sum overflows at up to 1/{} of the "
      "scale that one rank can have",
      ranks, ranks, ranks);
}

/// Bytes that a rank sent for a step, the mean over all ranks and all steps of this run.
double measured_bytes(const Outcome& outcome, std::size_t steps) {
  double sum = 0;
  for (const Values& values : outcome.values) sum += values.empty() ? NAN : values[kBytesSent];
  return sum / static_cast<double>(outcome.values.size() * steps);
}

/// Bytes of the rows that routers sent to other ranks, one way, in a step: the mean over ranks. 0 without steps or
/// routers.
double routed_bytes(const Outcome& outcome, std::size_t steps) {
  double sum = 0;
  if (steps == 0) return sum;
  for (const RankLedger& ledger : outcome.ledgers)
    if (const RegionTotal* region = ledger.region(kMixtureBackward)) sum += static_cast<double>(region->bytes);
  return sum / static_cast<double>(outcome.ledgers.size() * steps);
}

std::string mixture_line(const TrainPlan& plan, const Outcome& outcome, std::size_t steps) {
  const double away = (plan.step.data_ranks() - 1.0) / plan.step.data_ranks();
  const double slots = even_mixture_bytes(plan) / away;  // bytes of a rank's rows in a step
  double most = 0, mean = 0;
  for (const RankLedger& ledger : outcome.ledgers)
    if (const RegionTotal* region = ledger.region(kExpertsBackward)) {
      const double computed = static_cast<double>(region->bytes) / static_cast<double>(steps);
      most = std::max(most, computed), mean += computed / static_cast<double>(outcome.ledgers.size());
    }
  std::string line = fmt::format(
      "experts   {:.1f}% of the routers' rows went to other ranks, evenly spread {:.1f}%; the busiest rank computed "
      "{:.2f} × the mean\n",
      100 * routed_bytes(outcome, steps) / slots, 100 * away, most / mean);
  if (plan.request.capacity_factor > 0)
    line +=
        fmt::format("          {:.1f}% of the slots were above the capacity and dropped\n", 100 * (1 - mean / slots));
  return line;
}

}  // namespace

std::string title_of(const TrainPlan& plan) {
  const week25::Options3d& o = plan.step;
  std::vector<std::string> parts;
  if (o.replicas() > 1 || o.zero > 0)
    parts.push_back(counted(o.replicas(), "replica") + (o.zero > 0 ? fmt::format(" (ZeRO-{})", o.zero) : ""));
  if (o.cp > 1) parts.push_back(fmt::format("{} context-parallel", o.cp));
  if (o.mesh.tp > 1) parts.push_back(fmt::format("{} tensor-parallel", o.mesh.tp));
  if (o.mesh.pp > 1)
    parts.push_back(
        fmt::format("{} ({}, {})", counted(o.mesh.pp, "stage"), o.schedule, counted(o.microbatches, "microbatch")));
  return fmt::format("Training {}{}{}", std::filesystem::path(plan.request.model).stem().string(),
                     parts.empty() ? "" : ": ", fmt::join(parts, " × "));
}

Context context_of(const TrainPlan& plan) {
  Context context = Context::here();
  set_asked(context.more, plan.request, /*in_context=*/true);
  context.more.set("model", describe_model(plan.step.model));
  return context;
}

TrainLog::TrainLog(const TrainPlan& plan, std::FILE* out)
    : plan_(plan),
      out_(out),
      // mpirun gives its processes a terminal even where its own output is a file
      terminal_(out && isatty(fileno(out)) != 0 && std::string_view(backend_name()) == "sim"),
      virtual_time_(std::string_view(backend_name()) == "sim" && (plan.run.ranks > 1 || plan.run.phantom)) {}

void TrainLog::print(const std::string& text) const {
  if (!out_) return;
  fmt::print(out_, "{}", text);
  std::fflush(out_);
}

void TrainLog::tell(const std::string& lines) const {
  print(terminal_ ? folded(lines, terminal_columns(fileno(out_))) : lines);
}

void TrainLog::note(const std::string& line) {
  print(terminal_ ? "\r\033[K" : "");
  if (line.find('\n') == line.npos)
    tell(line + "\n");
  else
    print(line + "\n");  // a sample's lines are its own
}

void TrainLog::complain(const std::string& line) {
  complaints_.push_back(line);
  if (out_) fmt::print(stderr, "{}lab train: {}\n", terminal_ ? "\r\033[K" : "", line);
}

void TrainLog::diverged(const std::string& checkpoint) {
  diverged_ = true;
  const StepRecord& last = records_.back();
  std::string what = plan_.step.loss_scale
                         ? fmt::format("its gradients overflow at every loss scale, now {:g}", last.loss_scale)
                         : fmt::format("loss {}, gradient norm {}", shown(last.loss), shown(last.gradient_norm));
  if (plan_.step.loss_scale && !std::isfinite(last.loss)) what += fmt::format(", and its loss is {}", shown(last.loss));
  const std::string kept = checkpoint.empty() ? "" : fmt::format("; the last good checkpoint is {}", checkpoint);
  complain(fmt::format("the run diverged at step {}: {}{}; try a lower --lr, a longer --warmup or a smaller --clip",
                       last.step, what, kept));
}

void TrainLog::stopped(int done, int signal) {
  // A launcher passes on Ctrl-C and SIGTERM as the same signal, and knows itself which exit code is right.
  const bool by_launcher = signal == 0 || signal == SIGUSR1;
  stop_code_ = 128 + (by_launcher ? SIGTERM : signal);
  note(fmt::format("stopped   by {} after step {} of {}: --resume {} continues",
                   by_launcher        ? "an interrupt"
                   : signal == SIGINT ? "Ctrl-C"
                                      : "SIGTERM",
                   done, plan_.request.steps, plan_.checkpoint));
}

void TrainLog::nothing_to_do() {
  note(fmt::format("done      {} has all {} steps already", plan_.request.resume, plan_.request.steps));
}

void TrainLog::begin(int first_step, std::uint64_t bytes_sent) {
  first_step_ = first_step;
  logged_bytes_ = bytes_sent;
  began_ = std::chrono::steady_clock::now();
  const GptConfig& m = plan_.step.model;
  note(fmt::format("model     {} parameters: {}, {}, d_model {}, vocabulary {}, context {}, {}, {} head{}",
                   format_parameters(static_cast<double>(m.parameters())), counted(m.layers, "layer"),
                   counted(m.heads, "head"), m.d_model, m.vocabulary, m.context, to_string(m.storage),
                   m.tied_head ? "tied" : "untied", describe_architecture(m)));
  if (plan_.corpus)
    note(fmt::format("text      {}: {} training tokens, unigram entropy {:.3f} nats", plan_.data,
                     short_count(static_cast<double>(plan_.corpus->train().size())), plan_.corpus->unigram_entropy()));
  note(fmt::format("step      {} × {} on {} ({}{}), {} each", counted(plan_.step.batch, "sequence"),
                   counted(plan_.step.sequence, "token"), counted(plan_.run.ranks, "rank"), backend_name(),
                   virtual_time_ || plan_.run.emulate ? ", " + plan_.run.machine.name : "",
                   counted(plan_.step.microbatches, "microbatch")));
  for (const std::string& sentence : without_effect(plan_)) note("note      " + sentence);
  if (plan_.step.mesh.tp == 1 && plan_.step.mesh.pp == 1 && plan_.step.cp == 1) return;
  note(fmt::format("mesh      {}{} × {} tensor-parallel × {}{}", counted(plan_.step.replicas(), "replica"),
                   plan_.step.cp == 1 ? "" : fmt::format(" × {} context-parallel", plan_.step.cp), plan_.step.mesh.tp,
                   counted(plan_.step.mesh.pp, "stage"),
                   plan_.step.mesh.pp == 1
                       ? ""
                       : fmt::format(", schedule {}{}", plan_.step.schedule,
                                     plan_.step.chunks == 1 ? "" : fmt::format(", {} chunks", plan_.step.chunks))));
}

void TrainLog::steps(std::vector<StepRecord> records, const RankLedger& ledger, double seconds) {
  if (records.empty()) return;
  const double per_step = (seconds - logged_seconds_) / static_cast<double>(records.size());
  const double bytes =
      static_cast<double>(ledger.traffic.bytes_sent - logged_bytes_) / static_cast<double>(records.size());
  logged_seconds_ = seconds;
  logged_bytes_ = ledger.traffic.bytes_sent;
  step_seconds_.push_back(per_step);
  for (StepRecord& record : records) {
    record.seconds = per_step;
    record.bytes_sent = bytes;
    records_.push_back(record);
  }
  const StepRecord& last = records_.back();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - began_;
  const double left = wall.count() / (last.step - first_step_) * (plan_.request.steps - last.step);
  const std::vector<LinePart> line = {
      {fmt::format("step {:>5}/{}", last.step, plan_.request.steps), 7},
      {"loss " + number(last.loss, 4), 6},
      {"gradient " + number(last.gradient_norm, 2), 3},
      {fmt::format("{} tokens/s{}", short_count(static_cast<double>(plan_.tokens_per_step()) / per_step),
                   virtual_time_ ? " (virtual)" : ""),
       4},
      {format_bytes(bytes) + "/step", 1},
      {format_bytes(static_cast<double>(ledger.memory.peak_total)) + "/rank", 2},
      {format_seconds(left) + " left", 5}};
  // Cut to the terminal's width: a second row would not be written over.
  print(terminal_ ? "\r\033[K" + line_of(line, terminal_columns(fileno(out_)) - 1) : line_of(line, kWide) + "\n");
}

void TrainLog::save_took(double stopped_seconds, double complete_seconds) {
  if (virtual_time_) return;  // no clock of the run's
  save_stopped_seconds_.push_back(stopped_seconds);
  save_complete_seconds_.push_back(complete_seconds);
}

void TrainLog::validation(int step, double loss) {
  validations_.push_back({step, loss});
  if (std::isfinite(loss)) note(fmt::format("step {:>5}/{}  validation loss {:.4f}", step, plan_.request.steps, loss));
}

std::size_t TrainLog::last_steps() const { return std::min<std::size_t>(10, records_.size()); }

double TrainLog::mean_last_losses() const {
  const std::size_t count = last_steps();
  double sum = 0;
  for (std::size_t i = records_.size() - count; i < records_.size(); ++i) sum += records_[i].loss;
  return count ? sum / static_cast<double>(count) : NAN;
}

Median TrainLog::step_time() const {
  // The first log line holds what happens once: threads start, memory is touched for the first time.
  std::vector<double> samples(step_seconds_.begin() + (step_seconds_.size() > 2 ? 1 : 0), step_seconds_.end());
  return samples.empty() ? Median{.value = NAN} : median(samples);
}

double TrainLog::median_step_seconds() const { return step_time().value; }

double TrainLog::tokens_per_second() const {
  return static_cast<double>(plan_.tokens_per_step()) / median_step_seconds();
}

double TrainLog::median_loading_seconds() const {
  std::vector<double> seconds;
  for (const StepRecord& record : records_) seconds.push_back(record.loading_seconds);
  return seconds.empty() ? NAN : median(seconds).value;
}

/// The line on data: bytes read for rank 0, and the share of a step that loading took, or waiting for it.
std::string TrainLog::loading_line() const {
  const double typical = median_loading_seconds();
  const int ahead = plan_.request.load_ahead;
  return fmt::format("data      {} per step for rank 0, {} {} (median), {:.1f}% of a step\n",
                     format_bytes(records_.back().loaded_bytes),
                     ahead > 0 ? fmt::format("{} ahead: a step waits", counted(ahead, "batch")) : "loaded in",
                     format_seconds(typical), 100 * typical / median_step_seconds());
}

Rate TrainLog::rate() const {
  return rate_of(plan_, median_step_seconds(), baseline_of(plan_, backend_name(), virtual_time_ || plan_.run.emulate));
}

void TrainLog::summary(const Outcome& outcome) const {
  if (terminal_) print("\n");
  if (plan_.corpus)
    tell(fmt::format(
        "loss      {:.4f} ({}), validation {:.4f}; a model that knows only how often each token occurs: {:.4f}\n",
        mean_last_losses(),
        last_steps() == 1 ? "the last step" : fmt::format("mean of the last {} steps", last_steps()),
        validations_.empty() ? NAN : validations_.back().loss, plan_.corpus->unigram_entropy()));
  tell(fmt::format("speed     {} tokens/s{}, {} per step (median){}\n", short_count(tokens_per_second()),
                   virtual_time_ ? " on " + plan_.run.machine.name + " (virtual)" : "",
                   format_seconds(median_step_seconds()),
                   virtual_time_ ? fmt::format("; simulated in {}", format_seconds(outcome.wall_seconds)) : ""));
  if (tells_quiet() && !is_quiet(step_time()))
    tell(
        fmt::format("          not quiet: emulated steps, which take the same time on an idle computer, have a 95% "
                    "interval {:.0f}% wide. Stop other programs\n",
                    100 * spread_of(step_time())));
  tell(rate_line(rate()));
  if (plan_.run.ranks > 1)
    tell(fmt::format(
        "traffic   {} per rank and step, predicted {}: {}\n", format_bytes(measured_bytes(outcome, records_.size())),
        format_bytes(predicted_bytes(plan_, first_step_) + mixture_bytes(routed_bytes(outcome, records_.size()))),
        traffic_formula(plan_)));
  if (plan_.run.ranks > 1 && plan_.step.has_experts() && !records_.empty())
    tell(mixture_line(plan_, outcome, records_.size()));
  if (plan_.corpus && !records_.empty()) tell(loading_line());
  if (!save_stopped_seconds_.empty())
    tell(fmt::format("saves     {}: training stopped for {}, complete after {} (medians)\n",
                     save_stopped_seconds_.size(), format_seconds(median(save_stopped_seconds_).value),
                     format_seconds(median(save_complete_seconds_).value)));
  if (plan_.step.loss_scale && !records_.empty())
    tell(fmt::format("scale     {:g} at the end; {} of {} steps overflowed and were skipped{}\n",
                     records_.back().loss_scale, skipped_, plan_.request.steps,
                     skipped_ > 0 && plan_.step.data_ranks() > 1 ? sooner(plan_.step.data_ranks()) : ""));
  tell(memory_line(plan_, outcome));
  if (const std::string& code = whose_code(); code == "yours: all")
    tell(
        "code      yours: all. Every pass, every sum and every update of this model went through code that you "
        "wrote.\n");
  else if (code != "reference")
    tell(fmt::format("code      {}. The rest is still to be written by you.\n", code));
}

std::vector<Row> TrainLog::step_rows() const {
  std::vector<Row> rows;
  for (const StepRecord& r : records_) {
    Row& row = rows.emplace_back();
    row.set("step", r.step)
        .set("loss", r.loss)
        .set("learning_rate", r.learning_rate)
        .set("gradient_norm", r.gradient_norm);
    row.set("seconds", r.seconds).set("tokens_per_second", static_cast<double>(plan_.tokens_per_step()) / r.seconds);
    row.set("bytes_sent", r.bytes_sent).set("loss_scale", r.loss_scale);
    row.set("loading_seconds", r.loading_seconds).set("loaded_bytes", r.loaded_bytes);
    const auto found =
        std::find_if(validations_.begin(), validations_.end(), [&](const Validation& v) { return v.step == r.step; });
    row.set("validation_loss", found == validations_.end() ? NAN : found->loss);
  }
  return rows;
}

Row TrainLog::result_row(const Outcome& outcome) const {
  std::uint64_t sent = 0;
  for (const RankLedger& ledger : outcome.ledgers) sent = std::max(sent, ledger.traffic.bytes_sent);
  Row row;
  row.set("backend", backend_name()).set("machine", virtual_time_ || plan_.run.emulate ? plan_.run.machine.name : "");
  row.set("ranks", plan_.run.ranks).set("phantom", plan_.run.phantom).set("parameters", plan_.step.model.parameters());
  set_asked(row, plan_.request);
  row.set("sequence_tokens", plan_.step.sequence).set("accumulate", plan_.step.microbatches);
  row.set("replicas", plan_.step.replicas()).set("chunks", plan_.step.chunks);
  row.set("overlap", plan_.step.overlap).set("bucket_bytes", plan_.step.bucket_bytes);
  row.set("feedback", !plan_.request.no_feedback);
  row.set("outer_learning_rate", plan_.outer ? plan_.request.outer_learning_rate : NAN)
      .set("outer_momentum", plan_.outer ? plan_.request.outer_momentum : NAN);
  row.set("loss", mean_last_losses()).set("last_loss", records_.empty() ? NAN : records_.back().loss);
  row.set("validation_loss", validations_.empty() ? NAN : validations_.back().loss);
  row.set("unigram_entropy", plan_.corpus ? plan_.corpus->unigram_entropy() : NAN);
  row.set("seconds", median_step_seconds()).set("tokens_per_second", tokens_per_second());
  if (tells_quiet()) set_quiet(row, step_time());
  row.set("bytes_sent_per_step", measured_bytes(outcome, records_.size()));
  const double rows = mixture_bytes(routed_bytes(outcome, records_.size()));
  row.set("predicted_bytes_sent_per_step", predicted_bytes(plan_, first_step_) + rows);
  row.set("bytes_sent_per_rank_max", sent);
  row.set("messages", outcome.messages);
  double flop = 0;
  for (const RankLedger& ledger : outcome.ledgers) flop = std::max(flop, ledger.flop);
  row.set("loss_scale", records_.empty() ? NAN : records_.back().loss_scale).set("skipped_steps", skipped_);
  row.set("flop_per_rank_max", flop);
  for (const State& state : kState)
    row.set(fmt::format("predicted_{}_bytes", state.field), plan_.peak.peak_of(state.category));
  for (const State& state : kState) row.set(fmt::format("{}_bytes_peak", state.field), peak(outcome, state.category));
  const Rate reached = rate();
  row.set("flop_per_second", reached.flop_per_second).set("mfu", reached.mfu);
  row.set("fraction_of_product_rate", reached.product_share);
  const Roofs roofs = roofs_of(plan_, backend_name(), virtual_time_ || plan_.run.emulate);
  row.set("peak_flop_per_second", roofs.flop_per_second).set("memory_bytes_per_second", roofs.bytes_per_second);
  row.set("loading_seconds", median_loading_seconds());
  row.set("loaded_bytes", records_.empty() ? NAN : records_.back().loaded_bytes);
  row.set("timed_saves", save_stopped_seconds_.size());
  const auto middle = [](const std::vector<double>& all) { return all.empty() ? NAN : median(all).value; };
  row.set("save_stopped_seconds", middle(save_stopped_seconds_));
  row.set("save_complete_seconds", middle(save_complete_seconds_));
  row.set("run_seconds", outcome.seconds).set("wall_seconds", outcome.wall_seconds);
  return row;
}

}  // namespace lockstep::train
