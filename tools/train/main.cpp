// ./lab train: trains the GPT on text, on whichever backend this program was linked with. See --help.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "common/analysis/write_trace.hpp"
#include "common/error.hpp"
#include "common/runtime/device_notes.hpp"
#include "common/support/json/whose_code.hpp"
#include "common/support/text/run_program.hpp"
#include "tools/train/explain.hpp"
#include "tools/train/phantom.hpp"
#include "tools/train/program.hpp"
#include "tools/train/volume.hpp"
#include "tools/train/weights.hpp"

namespace {

using namespace lockstep;
using namespace lockstep::train;

/// Replicas that differ have not trained the same model.
bool replicas_agree(const Outcome& outcome) {
  for (const Values& values : outcome.values)
    if (!values.empty() && values[kSquares] != outcome.values.front().at(kSquares)) return false;
  return true;
}

bool all_finite(const Outcome& outcome) {
  for (const Values& values : outcome.values)
    for (const double value : values)
      if (!std::isfinite(value)) return false;
  return true;
}

void write_files(const TrainPlan& plan, const TrainLog& log, const Outcome& outcome) {
  const TrainRequest& r = plan.request;
  if (!r.csv.empty()) write_csv(r.csv, log.step_rows());
  if (!r.trace.empty()) write_trace(outcome.trace, r.trace, title_of(plan));
  if (r.json.empty()) return;
  Context context = context_of(plan);
  context.more.set("reduce", std::string(to_string(plan.step.reduce)));
  for (const DeviceNote& note : device_notes()) context.more.set(note.field, note.value);
  context.more.set("data", plan.corpus ? plan.data : "");
  write_results(r.json, context, std::vector<Row>{log.result_row(outcome)});
}

/// The command that shows how a run failed; "" where there is none.
std::string how_to_see_it(int argc, char** argv, const TrainPlan& plan, const Outcome& outcome) {
  if (outcome.verdict == Verdict::usage) return "";
  if (!plan.request.trace.empty()) return fmt::format("\nsee it: ./lab view {}", plan.request.trace);
  if (std::string_view(backend_name()) != "sim") return "";  // the launcher's options are not here
  const char* code = whose_code().starts_with("yours") ? " --mine" : "";
  return fmt::format("\nsee it: ./lab view train{} {}", code, fmt::join(argv + 1, argv + argc, " "));
}

/// `command`: "lab train", or "lab volume" where `counts`.
int train_text(int argc, char** argv, const Session& session, const std::string& command, bool counts) {
  TrainRequest request;
  if (counts) argv[1] = argv[0];
  if (const std::optional<int> code = parse(argc - counts, argv + counts, request, false, command)) return *code;
  if (counts) return report_volume(request, session.available_ranks());
  TrainPlan made = make_plan(request, session.available_ranks());
  made.pass_time = pass_loading_time;
  const TrainPlan& plan = made;
  if (!request.explain_as.empty()) {
    const std::string text = explanation_text(explain_as(request.explain_as, plan));
    if (is_judge()) fmt::print("{}", text);
    return 0;
  }
  if (is_folded(plan)) return report_phantom(plan);
  TrainLog log(plan);
  checkpoint::Disk disk;
  StopSignals signals(!plan.checkpoint.empty());
  const Outcome outcome = run(plan.run, [&](Rank me) { return train_rank(me, plan, log, disk, signals); });
  if (!outcome.passed() && is_judge() && !plan.request.trace.empty())  // ./lab why and view say how it stopped
    write_trace(outcome.trace, plan.request.trace, title_of(plan));
  if (!outcome.passed()) throw Error(outcome.verdict, outcome.message + how_to_see_it(argc, argv, plan, outcome));
  if (!is_judge()) return all_finite(outcome) && replicas_agree(outcome) ? 0 : 1;
  if (log.records().empty()) return 0;  // nothing was left to do
  if (!log.has_diverged() && !log.stop_code()) log.summary(outcome);
  for (const DeviceNote& note : device_notes())
    if (!note.line.empty()) fmt::print("{}\n", note.line);
  write_files(plan, log, outcome);
  if (log.has_diverged()) return 1;
  if (log.stop_code()) return log.stop_code();
  if (!all_finite(outcome)) {
    fmt::print(stderr, "lab train: the run diverged in its last step: its parameters are not finite\n");
    return 1;
  }
  if (!replicas_agree(outcome)) {
    fmt::print(stderr, "lab train: the ranks' parameters differ after the last step\n");
    return 1;
  }
  return log.saved() ? 0 : 1;
}

constexpr const char* kExportHelp =
    "./lab export CHECKPOINT OUT\n\n"
    "Writes the weights of a checkpoint for other programs, whichever ranks saved it: safetensors, fp32, with the "
    "names\n"
    "and shapes of GPT-2 in transformers. ./lab train --init FILE reads one.\n\n"
    "  CHECKPOINT   a directory that ./lab train --checkpoint wrote (the last checkpoint in it), or a step in one\n"
    "  OUT          a file, x.safetensors; else a folder: model.safetensors and config.json, for from_pretrained()\n";

/// Runs ./lab export: `arguments` are those after the program's name and --export.
int run_export(const std::vector<std::string>& arguments) {
  for (const std::string& each : arguments)
    if (each == "--help" || each == "-h") {
      fmt::print("{}", kExportHelp);
      return 0;
    }
  if (arguments.size() != 2 || arguments[0].empty() || arguments[1].empty() || arguments[0][0] == '-' ||
      arguments[1][0] == '-')
    throw Error(Verdict::usage, "say which checkpoint, and where to: ./lab export outputs/run weights.safetensors");
  checkpoint::Disk disk;
  fmt::print("{}", export_weights(disk, arguments[0], arguments[1]));
  return 0;
}

/// Prints "mpi 4", the backend and the number of ranks that ./lab has to start for a command line of ./lab train, which
/// is all that is in `argv`. 0: as many as there are; no backend, "-": the default.
int print_start(int argc, char** argv) {
  TrainRequest request;
  if (const std::optional<int> code = parse(argc, argv, request, /*any_backend=*/true)) return *code;
  fmt::print("{} {}\n", request.backend.empty() ? "-" : request.backend, ranks_asked_for(request));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--print-start") {
    argv[1] = argv[0];
    return run_program("lab train: ", [&] { return print_start(argc - 1, argv + 1); });
  }
  if (argc > 1 && std::string_view(argv[1]) == "--export")
    return run_program(
        "lab export: ",
        [&] {
          return run_export({argv + 2, argv + argc});
        },
        [] { return true; });
  const bool counts = argc > 1 && std::string_view(argv[1]) == "--volume";
  const std::string command = counts ? "lab volume" : "lab train";
  const auto in_session = [&] {
    Session session(argc, argv);  // errors of the training are told while it lasts
    return run_program(
        command + ": ", [&] { return train_text(argc, argv, session, command, counts); }, is_judge);
  };
  return run_program(command + ": ", in_session, is_judge);
}
