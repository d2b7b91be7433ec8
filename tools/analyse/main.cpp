// ./lab why FILE, ./lab diff A B and ./lab view FILE …, on traces that ./lab train --trace FILE.json wrote (or --trace
// of a lab's tests).
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "common/analysis/diff.hpp"
#include "common/analysis/graph.hpp"
#include "common/analysis/read_trace.hpp"
#include "common/analysis/why.hpp"
#include "common/error.hpp"
#include "common/runtime/machine/machine.hpp"
#include "common/support/json/repeatable.hpp"
#include "common/support/text/nearest.hpp"
#include "common/support/text/parse_number.hpp"
#include "common/support/text/run_program.hpp"
#include "tools/analyse/pytorch/elsewhere.hpp"
#include "tools/analyse/pytorch/flight_recorder.hpp"
#include "tools/analyse/pytorch/run.hpp"
#include "tools/analyse/pytorch/timeline.hpp"
#include "tools/analyse/view/page.hpp"

namespace {

using namespace lockstep;

constexpr const char* kHelp =
    "./lab why FILE [--step NAME] [--json FILE]    the critical path of a traced run, and what limits it\n"
    "./lab why train OPTIONS                       the same, of this run of ./lab train\n"
    "./lab why RANK0.json RANK1.json …             where a run of PyTorch spends its time, or why it hangs: traces of\n"
    "  [--machine NAME [--ranks N] [--speed X]]    torch.profiler, and what they would be there; or flight recorder "
    "dumps\n"
    "./lab view FILE… [--out PAGE.html]            a page that animates the run (view A B --together: side by side)\n"
    "./lab diff A B [--top N] [--json FILE]        two traces, operation by operation\n"
    "FILE, A and B are what ./lab train --trace FILE.json writes, on any backend. --step: the phase to "
    "analyse\n"
    "(default: step, or else the whole run; \"\": the whole run).\n";

const std::vector<OptionName> kOptions = {{"--step", "the phase of the program to analyse"},
                                          {"--json", "a file for the rows"},
                                          {"--top", "how many operations"},
                                          {"--out", "the page"},
                                          {"--together", "two runs on one time axis"},
                                          {"--ghost", "the second run as thin lanes below the first one's ranks"},
                                          {"--events", "how many are drawn"},
                                          {"--machine", "of a trace of PyTorch: a machine to run it on"},
                                          {"--ranks", "how many there"},
                                          {"--speed", "how many times as fast a rank computes there"},
                                          {"--help", ""}};

struct Arguments {
  std::string command_line;  // that repeats it
  std::vector<std::string> files;
  std::string json;
  std::optional<std::string> step;
  std::optional<std::size_t> top;
  bool help = false;
  std::string out;
  view::PageOptions page;
  std::string machine;
  pytorch::There there;
};

std::size_t whole_number(const std::string& option, const std::string& text) {
  const auto number = parse_number<std::size_t>(text);
  if (!number) throw Error(Verdict::usage, fmt::format("{} needs a whole number, not '{}'", option, text));
  return *number;
}

double positive(const std::string& option, const std::string& text) {
  const auto number = parse_number<double>(text);
  if (!number || !(*number > 0) || *number > 1e12)
    throw Error(Verdict::usage, fmt::format("{} needs a number above 0, not '{}'", option, text));
  return *number;
}

Arguments parse(int argc, char** argv) {
  Arguments a;
  for (int i = 2; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&] {
      if (i + 1 == argc) throw Error(Verdict::usage, argument + " needs a value");
      return std::string(argv[++i]);
    };
    if (argument == "--json") {
      a.json = value();
    } else if (argument == "--step") {
      a.step = value();
    } else if (argument == "--top") {
      a.top = whole_number(argument, value());
    } else if (argument == "--events") {
      a.page.most_events = whole_number(argument, value());
    } else if (argument == "--machine") {
      a.machine = value();
    } else if (argument == "--ranks") {
      a.there.ranks = static_cast<int>(whole_number(argument, value()));
    } else if (argument == "--speed") {
      a.there.speed = positive(argument, value());
    } else if (argument == "--out") {
      a.out = value();
    } else if (argument == "--together") {
      a.page.together = true;
    } else if (argument == "--ghost") {
      a.page.together = a.page.ghost = true;
    } else if (argument == "--help" || argument == "-h") {
      a.help = true;
    } else if (argument.starts_with("-")) {
      throw Error(Verdict::usage, unknown_option(argument, kOptions));
    } else {
      a.files.push_back(argument);
    }
  }
  return a;
}

void want_files(const Arguments& a, std::size_t count, const char* which) {
  if (a.files.size() != count) throw Error(Verdict::usage, fmt::format("{} is missing: see --help", which));
  if (!a.json.empty()) check_writable(a.json);
}

void write_rows(const Arguments& a, const std::vector<Row>& rows) {
  if (a.json.empty()) return;
  Context context = Context::here();
  context.more.set("command_line", a.command_line).set("trace", a.files[0]);
  if (a.files.size() > 1) context.more.set("trace_b", a.files[1]);
  write_results(a.json, context, rows);
}

/// A phase that was asked for is one that all ranks have.
void want_phase(const Trace& trace, const std::string& name) {
  const std::vector<std::string> known = analysis::phase_names(trace);
  if (std::find(known.begin(), known.end(), name) == known.end())
    throw Error(Verdict::usage, "--step: " + unknown_name("phase", name, known));
  if (analysis::phase_seconds(trace, name).empty())
    throw Error(Verdict::usage,
                fmt::format("--step {}: the ranks do not all have the same number of these phases", name));
}

/// Describes the steps before a run stopped.
std::string before_the_stop(const analysis::Stop& stop, const std::string& phase) {
  if (stop.finished == 0)
    return fmt::format("          {}: what limits the run is not known\n",
                       phase.empty() ? "it did not end" : fmt::format("no {} had ended on all ranks", phase));
  return fmt::format("          what follows is of the {0} {1}{2} that all ranks had ended\n\n", stop.finished, phase,
                     stop.finished == 1 ? "" : "s");
}

pytorch::Matched read_pytorch(const std::vector<std::string>& files) {
  std::vector<pytorch::RankTrace> traces;
  for (const std::string& file : files) traces.push_back(pytorch::read_trace(file));
  return pytorch::match(std::move(traces));
}

/// Traces of torch.profiler, one per rank.
void why_pytorch(const Arguments& a) {
  if (a.step || a.top) throw Error(Verdict::usage, "--step and --top are for traces of ./lab train");
  if (!a.json.empty()) check_writable(a.json);
  const pytorch::Matched matched = read_pytorch(a.files);
  const pytorch::Run run = pytorch::analyse(matched);
  fmt::print("{}", format(run));
  std::vector<Row> all = rows(run);
  if (!a.machine.empty()) {
    const Machine machine = find_machine(a.machine, LOCKSTEP_SOURCE_DIR "/bench/machines");
    const pytorch::Elsewhere there = pytorch::elsewhere(matched, machine, a.there);
    fmt::print("{}", format(there));
    for (Row& row : rows(there)) all.push_back(std::move(row));
  }
  write_rows(a, all);
}

/// Dumps of PyTorch's flight recorder, one per rank.
void why_it_hangs(const Arguments& a) {
  if (a.step || a.top || !a.machine.empty())
    throw Error(Verdict::usage, "--step, --top and --machine are for traces, and these are a flight recorder's dumps");
  if (!a.json.empty()) check_writable(a.json);
  std::vector<pytorch::FlightRecord> ranks;
  for (const std::string& file : a.files) ranks.push_back(pytorch::read_flight_record(file));
  const pytorch::Flight flight = pytorch::compare(std::move(ranks));
  fmt::print("{}", format(flight));
  write_rows(a, rows(flight));
}

void why(const Arguments& a) {
  if (a.machine.empty() && (a.there.ranks > 0 || a.there.speed != 1))
    throw Error(Verdict::usage, "--ranks and --speed are of a --machine");
  if (!a.files.empty() && pytorch::is_pytorch_trace(a.files[0])) return why_pytorch(a);
  if (!a.files.empty() && pytorch::is_flight_record(a.files[0])) return why_it_hangs(a);
  if (!a.machine.empty())
    throw Error(Verdict::usage, "--machine is for traces of PyTorch; to run on it, train --machine");
  want_files(a, 1, "one trace, or train and its options");
  if (a.top) throw Error(Verdict::usage, "--top is for ./lab diff");
  const Trace trace = read_chrome_trace(a.files[0]);
  const std::string step = a.step.value_or("step");
  if (const auto stop = analysis::stop_of(trace, step)) {
    fmt::print("stopped   {}\n{}", stop->words, before_the_stop(*stop, step));
    if (stop->finished == 0) return write_rows(a, {});
  }
  if (a.step && !a.step->empty()) want_phase(trace, *a.step);
  const analysis::Why found = analysis::why(trace, step);
  fmt::print("{}", format_why(found));
  write_rows(a, rows(found));
}

void diff(const Arguments& a) {
  want_files(a, 2, "two traces");
  if (a.step) throw Error(Verdict::usage, "--step is for ./lab why");
  const Trace both[] = {read_chrome_trace(a.files[0]), read_chrome_trace(a.files[1])};
  std::string head;
  for (std::size_t i = 0; i < 2; ++i) {
    head += fmt::format("{}: {}\n", "AB"[i], a.files[i]);
    if (const auto stop = analysis::stop_of(both[i])) head += fmt::format("   stopped {}\n", stop->words);
  }
  if (both[0].stopped || both[1].stopped)
    fmt::print("{}", std::exchange(head, ""));  // also where nothing is comparable
  const analysis::Diff found = analysis::diff(both[0], both[1]);
  fmt::print("{}{}", head, format_diff(found, a.top.value_or(15)));
  write_rows(a, rows(found));
}

/// Says where the page is; who wants to see it opens it.
void view_page(const Arguments& a) {
  if (a.files.empty()) throw Error(Verdict::usage, "give a trace, or several: see --help");
  if (a.page.together && a.files.size() != 2) throw Error(Verdict::usage, "--together needs two traces");
  const std::string out = a.out.empty() ? "run.html" : a.out;
  check_writable(out);
  view::PageOptions options = a.page;
  options.source = LOCKSTEP_SOURCE_DIR;
  std::vector<view::NamedTrace> runs;
  if (pytorch::is_pytorch_trace(a.files[0])) {  // its files are one run
    options.together = options.ghost = false;
    const pytorch::Matched matched = read_pytorch(a.files);
    options.limit = pytorch::analyse(matched).sentence;
    runs.push_back({"PyTorch", pytorch::timeline(matched).trace});
  } else {
    for (const std::string& file : a.files) runs.push_back({view::title_of(file), read_chrome_trace(file)});
  }
  write_atomically(out, view::page(runs, options));
  fmt::print("the page: {}\n", out);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "why";
  return run_program("lab " + command + ": ", [&] {
    Arguments arguments = parse(argc, argv);
    arguments.command_line = repeatable("./lab " + command, argc - 1, argv + 1);
    if (arguments.help)
      fmt::print("{}", kHelp);
    else
      command == "diff" ? diff(arguments) : command == "view" ? view_page(arguments) : why(arguments);
    return 0;
  });
}
