#include "tools/analyse/drill/files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/analysis/write_trace.hpp"
#include "common/support/json/results.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/units.hpp"
#include "tools/analyse/drill/kinds.hpp"

namespace lockstep::drill {
namespace {

std::string checksum(std::uint32_t value) { return fmt::format("{:08x}", value); }

/// By step, then rank.
std::vector<StepSeen> in_order(std::vector<StepSeen> steps) {
  std::sort(steps.begin(), steps.end(),
            [](const StepSeen& a, const StepSeen& b) { return a.step != b.step ? a.step < b.step : a.rank < b.rank; });
  return steps;
}

std::vector<Row> step_rows(const Drill& drill, const Played& played) {
  std::vector<Row> rows;
  for (const StepSeen& s : in_order(played.steps))
    rows.emplace_back()
        .set("step", s.step + 1)
        .set("rank", s.rank)
        .set("seconds", s.seconds)
        .set("loss", loss_of(drill.job, played, s.step))
        .set("own_loss", s.loss)
        .set("gradient_norm", s.norm)
        .set("parameters", checksum(s.values));
  return rows;
}

std::vector<Row> rank_rows(const Played& played) {
  std::vector<Row> rows;
  for (std::size_t rank = 0; rank < played.outcome.ledgers.size(); ++rank) {
    const RankLedger& ledger = played.outcome.ledgers[rank];
    rows.emplace_back()
        .set("rank", rank)
        .set("waiting_seconds", ledger.queues.front().waiting)
        .set("bytes_sent", ledger.traffic.bytes_sent)
        .set("bytes_to_other_nodes", played.across_nodes[rank])
        .set("activation_peak_bytes", ledger.memory.peak_of(Category::activation));
  }
  return rows;
}

std::vector<Row> collective_rows(const Played& played) {
  std::vector<Collective> all = played.collectives;
  std::stable_sort(all.begin(), all.end(), [](const Collective& a, const Collective& b) {
    return a.number != b.number ? a.number < b.number : a.rank < b.rank;
  });
  std::vector<Row> rows;
  for (const Collective& c : all)
    rows.emplace_back()
        .set("number", c.number)
        .set("rank", c.rank)
        .set("step", c.step + 1)
        .set("bytes", c.bytes)
        .set("state", c.ended ? "ended" : "under way")
        .set("result", c.ended ? checksum(c.result) : "");
  return rows;
}

std::string step_lines(const Drill& drill, const Played& played) {
  std::string text;
  for (int step = 0; step < drill.job.steps; ++step) {
    const double loss = loss_of(drill.job, played, step);
    if (std::isnan(loss)) break;
    double begin = 0, end = 0, norm = 0;  // from where all ranks have begun, as ./lab diff does
    for (const StepSeen& s : played.steps) {
      if (s.step != step) continue;
      begin = std::max(begin, s.begin), end = std::max(end, s.begin + s.seconds);
      if (s.rank == 0) norm = s.norm;
    }
    text += fmt::format("step {}/{}  loss {:.5f}  gradient norm {:.5f} (rank 0)  {}\n", step + 1, drill.job.steps, loss,
                        norm, format_seconds(end - begin));
  }
  return text;
}

std::string rank_lines(const Played& played) {
  std::string text = fmt::format("{:>4}  {:>10}  {:>10}  {:>14}  {:>17}\n", "rank", "waiting", "sent", "to other nodes",
                                 "activations, peak");
  for (std::size_t rank = 0; rank < played.outcome.ledgers.size(); ++rank) {
    const RankLedger& ledger = played.outcome.ledgers[rank];
    text += fmt::format("{:>4}  {:>10}  {:>10}  {:>14}  {:>17}\n", rank, format_seconds(ledger.queues.front().waiting),
                        format_bytes(static_cast<double>(ledger.traffic.bytes_sent)),
                        format_bytes(static_cast<double>(played.across_nodes[rank])),
                        format_bytes(static_cast<double>(ledger.memory.peak_of(Category::activation))));
  }
  return text;
}

}  // namespace

std::string format_output(const Drill& drill, const Played& played) {
  const week25::Options3d& o = drill.job.options;
  std::string text = fmt::format(
      "run       {}; nodes of {} ranks\nmodel     GPT of {} layers, {} sequences × {} tokens "
      "per step, {}\n\n",
      drill.job.title, drill.job.machine.levels.front().ranks, o.model.layers, o.batch, o.sequence,
      counted(o.microbatches, "microbatch per replica"));
  text += step_lines(drill, played);
  if (!played.outcome.passed())
    text += fmt::format("\nstopped   {}\n", with_verdict(to_string(played.outcome.verdict), played.outcome.message));
  return text + "\nranks, the whole run\n" + rank_lines(played);
}

void write_evidence(const std::string& folder, const Drill& drill, const Played& played) {
  make_folders_of(folder + "/output.txt");
  write_atomically(folder + "/output.txt", format_output(drill, played));
  write_csv(folder + "/steps.csv", step_rows(drill, played));
  write_csv(folder + "/ranks.csv", rank_rows(played));
  if (!played.collectives.empty()) write_csv(folder + "/collectives.csv", collective_rows(played));
  write_trace(played.outcome.trace, folder + "/trace.json", "Drill " + drill.id + ": " + drill.job.title);
}

std::string answer_form(const Drill& drill) {
  std::string text = fmt::format(
      "# Drill {0}: what is wrong with this run? Fill in the four lines at the end, then: ./lab drill check {0}\n"
      "# The kinds that are possible here, and what the other lines mean for each:\n#\n",
      drill.id);
  for (const std::string& word : drill.kinds) {
    const Kind& kind = kind_of(word);
    text += fmt::format("# {}: {}\n#     rank       {}\n#     operation  {}\n#     evidence   {}\n", kind.word,
                        kind.meaning, kind.rank, kind.operation, kind.evidence);
  }
  return text +
         "#\n# Write bytes in full, seconds with their unit, losses and norms as the output prints them.\n\n"
         "kind:\nrank:\noperation:\nevidence:\n";
}

}  // namespace lockstep::drill
