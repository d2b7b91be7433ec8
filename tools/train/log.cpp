#include "tools/train/log.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "common/stats/stats.hpp"
#include "common/text/units.hpp"
#include "labs/week22_zero/memory_calculator.hpp"

namespace lockstep::train {

namespace {

std::string number(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : "–";
}

std::string short_count(double value) {
  if (value >= 1e12) return fmt::format("{:.3g} T", value / 1e12);
  if (value >= 1e9) return fmt::format("{:.3g} G", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.3g} M", value / 1e6);
  if (value >= 1e3) return fmt::format("{:.3g} k", value / 1e3);
  return fmt::format("{:.3g}", value);
}

/// What tensor parallelism sends a step (week 23): (p − 1)/p of N × C for each half of a sum: two forward and two
/// backward in each of a block's two parts (three backward where rows are gathered once more), likewise for embedding
/// and head; and two numbers a row and rank for the loss.
double predicted_tensor_bytes(const Plan& plan) {
  if (plan.options.tp == 1) return 0;
  const double p = plan.options.tp, layers = static_cast<double>(plan.model.layers);
  const double rows = static_cast<double>(plan.tokens_per_step()) / plan.replicas();
  const double element = static_cast<double>(bytes_of(plan.model.storage)),
               wide = static_cast<double>(plan.model.d_model);
  const double sequence = plan.options.sequence_parallel ? 1 : 0;
  const double halves = 8 * layers + 4 + sequence * (2 * layers + 1);
  const double norms = sequence * 2 * (4 * layers + 2) * wide;  // both halves of the sum of their gradients
  return (p - 1) / p * ((halves * rows * wide + norms) * element + rows * 2 * p * 4);
}

/// What each rank sends a step for its gradients and values (22.1) and for shared layers, without the scalars of
/// clipping and of the log.
double predicted_bytes(const Plan& plan) {
  return week22::bytes_sent(static_cast<double>(plan.own_model().parameters()), plan.options.zero, plan.replicas(),
                            static_cast<int>(plan.options.accumulate), week22::recipe_of(plan.model.storage)) +
         predicted_tensor_bytes(plan);
}

/// In words: how `predicted_bytes` comes about.
std::string traffic_formula(const Plan& plan) {
  if (plan.options.tp > 1)
    return plan.replicas() > 1 ? "sums of activations, and 2 × Ψ(d−1)/d elements of gradients" : "sums of activations";
  const int times = plan.options.zero < 2    ? 2
                    : plan.options.zero == 2 ? static_cast<int>(plan.options.accumulate) + 1
                                             : 3 * static_cast<int>(plan.options.accumulate);
  return fmt::format("{} × Ψ(p−1)/p elements", times);
}

std::uint64_t peak(const Outcome& outcome, Category category) {
  std::uint64_t most = 0;
  for (const RankLedger& ledger : outcome.ledgers) most = std::max(most, ledger.memory.peak_of(category));
  return most;
}

}  // namespace

TrainLog::TrainLog(const Plan& plan, std::FILE* out)
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

void TrainLog::note(const std::string& line) { print((terminal_ ? "\r\033[K" : "") + line + "\n"); }

void TrainLog::complain(const std::string& line) {
  complaints_.push_back(line);
  if (out_) fmt::print(stderr, "{}lab train: {}\n", terminal_ ? "\r\033[K" : "", line);
}

void TrainLog::begin(int first_step) {
  first_step_ = first_step;
  began_ = std::chrono::steady_clock::now();
  const GptConfig& m = plan_.model;
  note(fmt::format("model     {} parameters: {} layers, {} heads, d_model {}, vocabulary {}, context {}, {}, {} head",
                   short_count(static_cast<double>(m.parameters())), m.layers, m.heads, m.d_model, m.vocabulary,
                   m.context, to_string(m.storage), m.tied_head ? "tied" : "untied"));
  if (plan_.corpus)
    note(fmt::format("text      {}: {} training tokens, unigram entropy {:.3f} nats", plan_.options.data,
                     short_count(static_cast<double>(plan_.corpus->train().size())), plan_.corpus->unigram_entropy()));
  note(fmt::format("step      {} sequences × {} tokens on {} rank{} ({}{}), {} microbatch{} each", plan_.options.batch,
                   plan_.options.sequence, plan_.run.ranks, plan_.run.ranks == 1 ? "" : "s", backend_name(),
                   virtual_time_ || plan_.run.emulate ? ", " + plan_.run.machine.name : "", plan_.options.accumulate,
                   plan_.options.accumulate == 1 ? "" : "es"));
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
  const double left = wall.count() / (last.step - first_step_) * (plan_.options.steps - last.step);
  const std::string line = fmt::format(
      "step {:>5}/{}  loss {}  gradient {}  {} tokens/s{}  {}/step  {}/rank  {} left", last.step, plan_.options.steps,
      number(last.loss, 4), number(last.gradient_norm, 2),
      short_count(static_cast<double>(plan_.tokens_per_step()) / per_step), virtual_time_ ? " (virtual)" : "",
      format_bytes(bytes), format_bytes(static_cast<double>(ledger.memory.peak_total)), format_seconds(left));
  print(terminal_ ? "\r\033[K" + line : line + "\n");
}

void TrainLog::validation(int step, double loss) {
  validations_.push_back({step, loss});
  if (std::isfinite(loss)) note(fmt::format("step {:>5}/{}  validation loss {:.4f}", step, plan_.options.steps, loss));
}

double TrainLog::mean_last_losses() const {
  const std::size_t count = std::min<std::size_t>(10, records_.size());
  double sum = 0;
  for (std::size_t i = records_.size() - count; i < records_.size(); ++i) sum += records_[i].loss;
  return count ? sum / static_cast<double>(count) : NAN;
}

double TrainLog::median_step_seconds() const {
  // The first log line holds what happens once: threads start, memory is touched for the first time.
  std::vector<double> samples(step_seconds_.begin() + (step_seconds_.size() > 2 ? 1 : 0), step_seconds_.end());
  return samples.empty() ? NAN : median(samples).value;
}

double TrainLog::tokens_per_second() const {
  return static_cast<double>(plan_.tokens_per_step()) / median_step_seconds();
}

void TrainLog::summary(const Outcome& outcome) const {
  if (terminal_) print("\n");
  if (plan_.corpus)
    print(fmt::format(
        "loss      {:.4f} (mean of the last steps), validation {:.4f}; a model that knows only how often each token "
        "occurs: {:.4f}\n",
        mean_last_losses(), validations_.empty() ? NAN : validations_.back().loss, plan_.corpus->unigram_entropy()));
  print(fmt::format("speed     {} tokens/s{}, {} a step (median){}\n", short_count(tokens_per_second()),
                    virtual_time_ ? " on " + plan_.run.machine.name + " (virtual)" : "",
                    format_seconds(median_step_seconds()),
                    virtual_time_ ? fmt::format("; simulated in {}", format_seconds(outcome.wall_seconds)) : ""));
  if (plan_.run.ranks > 1)
    print(fmt::format("traffic   {} a rank and step, predicted {}: {}\n",
                      format_bytes(records_.empty() ? 0 : records_.back().bytes_sent),
                      format_bytes(predicted_bytes(plan_)), traffic_formula(plan_)));
  if (plan_.loss_scale && !records_.empty())
    print(fmt::format("scale     {:g} at the end; {} of {} steps overflowed and were skipped\n",
                      records_.back().loss_scale, skipped_, plan_.options.steps));
  const week22::ModelState state =
      week22::model_state(static_cast<double>(plan_.own_model().parameters()), plan_.options.zero, plan_.replicas(),
                          week22::recipe_of(plan_.model.storage));
  const auto measured = [&](Category category) { return format_bytes(static_cast<double>(peak(outcome, category))); };
  print(fmt::format(
      "memory    a rank, peaks (predicted): parameters {} ({}), gradients {} ({}), optimizer {} ({}), activations {} "
      "({})\n",
      measured(Category::parameter), format_bytes(state.parameter_bytes), measured(Category::gradient),
      format_bytes(state.gradient_bytes), measured(Category::optimizer), format_bytes(state.optimizer_bytes),
      measured(Category::activation), format_bytes(static_cast<double>(plan_.activation_bytes()))));
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
  row.set("ranks", plan_.run.ranks).set("phantom", plan_.run.phantom).set("parameters", plan_.model.parameters());
  row.set("steps", plan_.options.steps).set("batch_sequences", plan_.options.batch);
  row.set("sequence_tokens", plan_.options.sequence).set("accumulate", plan_.options.accumulate);
  row.set("overlap", !plan_.options.no_overlap).set("bucket_bytes", plan_.bucket_bytes);
  row.set("loss", mean_last_losses()).set("last_loss", records_.empty() ? NAN : records_.back().loss);
  row.set("validation_loss", validations_.empty() ? NAN : validations_.back().loss);
  row.set("unigram_entropy", plan_.corpus ? plan_.corpus->unigram_entropy() : NAN);
  row.set("seconds", median_step_seconds()).set("tokens_per_second", tokens_per_second());
  row.set("bytes_sent_per_step", records_.empty() ? NAN : records_.back().bytes_sent);
  row.set("tensor_parallel", plan_.options.tp).set("sequence_parallel", plan_.options.sequence_parallel);
  row.set("zero", plan_.options.zero).set("wrap", plan_.options.wrap).set("prefetch", plan_.options.prefetch);
  row.set("predicted_bytes_sent_per_step", predicted_bytes(plan_)).set("bytes_sent_per_rank_max", sent);
  row.set("messages", outcome.messages);
  double flop = 0;
  for (const RankLedger& ledger : outcome.ledgers) flop = std::max(flop, ledger.flop);
  row.set("loss_scale", records_.empty() ? NAN : records_.back().loss_scale).set("skipped_steps", skipped_);
  row.set("flop_per_rank_max", flop).set("predicted_activation_bytes", plan_.activation_bytes());
  row.set("parameter_bytes_peak", peak(outcome, Category::parameter));
  row.set("gradient_bytes_peak", peak(outcome, Category::gradient));
  row.set("optimizer_bytes_peak", peak(outcome, Category::optimizer));
  row.set("activation_bytes_peak", peak(outcome, Category::activation));
  row.set("run_seconds", outcome.seconds).set("wall_seconds", outcome.wall_seconds);
  return row;
}

}  // namespace lockstep::train
