// ./lab view: records a run, or takes traces that there are, and writes the page that plays it.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "common/error.hpp"
#include "common/support/host/host.hpp"
#include "common/support/text/run_program.hpp"
#include "tools/course/commands.hpp"
#include "tools/course/process.hpp"

namespace lockstep::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kViewHelp =
    "./lab view FILE                                a trace: of ./lab train --trace, of a check, of a drill\n"
    "./lab view A B                                 two traces side by side on one time axis\n"
    "./lab view check 21.2 --ranks 4 --size 8       your answer in this case; without --ranks and --size, the cases "
    "that fail\n"
    "./lab view train --pp 4 --schedule 1f1b …      a training run; --mine: with your code\n"
    "./lab view bench NAME …                        one run of each contender, at the first size: ddp, all_reduce, tp "
    "…\n"
    "./lab view pipeline --schedule 1f1b …          a schedule\n"
    "Each writes one HTML page to outputs/view/, which any browser opens from disk. --out FILE.html: another file.\n"
    "With --backend mpi, --predicted shows the simulated run beside the measured one: on the machine that it emulates, "
    "or on\n"
    "--machine NAME, or on this computer as ./lab calibrate has measured it.\n";

/// In the order in which they were written.
std::vector<std::string> traces_in(const fs::path& folder) {
  std::vector<std::string> traces;
  for (const auto& entry : fs::directory_iterator(folder))
    if (const std::string name = entry.path().filename().string(); name.ends_with(".json") || name.ends_with(".trace"))
      traces.push_back(entry.path().string());
  std::sort(traces.begin(), traces.end());
  std::stable_sort(traces.begin(), traces.end(), [](const std::string& a, const std::string& b) {
    return fs::last_write_time(a) < fs::last_write_time(b);
  });
  return traces;
}

/// Why there is no run of this benchmark to be played; "" where there is.
std::string nothing_to_play(const std::string& name) {
  if (name == "memory") return "only calculates, so there is no run to animate.";
  if (name == "schedule") return "is ./lab pipeline: ./lab view pipeline animates it.";
  if (name == "calibrate") return "times single messages and operations repeatedly: there is no single run to animate.";
  return "";
}

/// Before anything of an earlier run is removed.
void refuse_what_cannot_be(const Paths& paths, const std::string& command, const std::vector<std::string>& arguments) {
  if (std::find(arguments.begin(), arguments.end(), "--trace") != arguments.end())
    throw Error(Verdict::usage, "lab view: leave out --trace; the page has everything that is recorded.");
  if (command != "bench") return;
  if (arguments.empty()) throw Error(Verdict::usage, "lab view bench needs a benchmark's name: ddp, all_reduce, tp …");
  check_benchmark(paths, arguments[0]);
  if (const std::string why = nothing_to_play(arguments[0]); !why.empty())
    throw Error(Verdict::usage, fmt::format("lab view: bench {} {}", arguments[0], why));
}

/// Runs the command with recording on, into `folder`. Returns its exit code.
int record(const Paths& paths, const std::string& command, std::vector<std::string> arguments, const fs::path& folder,
           const CheckInto& check) {
  if (command == "check") return check(folder.string() + "/", arguments);
  const auto add = [&](const char* option, const std::string& value) {
    arguments.insert(arguments.end(), {option, (folder / value).string()});
  };
  if (command == "train") {
    add("--trace", "train.json");
    if (option(arguments, "--sample", "", false).empty()) arguments.insert(arguments.end(), {"--sample", "0"});
    if (std::find(arguments.begin(), arguments.end(), "--phantom") != arguments.end())
      arguments.emplace_back("--every-rank");  // a trace of one rank a stage does not say what the others wait for
    return run_forward(paths, "train", arguments);
  }
  if (command == "pipeline") {
    add("--trace", "pipeline.json");
    return run_forward(paths, target_of("pipeline"), arguments);
  }
  const std::string name = arguments.at(0);
  arguments.erase(arguments.begin());
  add("--timeline", name);
  return run_forward(paths, "bench_" + name, arguments);
}

/// The run in the simulator that is to predict it: on the machine that it emulates, on --machine, or on this computer.
std::vector<std::string> simulated_twin(const Paths& paths, const std::string& command,
                                        std::vector<std::string> arguments) {
  for (const char* of_processes : {"--launcher", "--nodes", "--hostfile", "--scale", "--samples"})
    option(arguments, of_processes, "", true);
  const Start start = start_of(paths, command, arguments);
  if (start.backend != "mpi")
    throw Error(Verdict::usage,
                "lab view: --predicted compares a run on processes with a simulated one: add --backend mpi.");
  option(arguments, "--backend", "", true);
  const std::string emulated = option(arguments, "--emulate", "", true);
  std::string machine = option(arguments, "--machine", emulated, true);
  if (machine.empty()) {
    machine = machine_file_of_host(paths.source.string(), start.backend);
    if (!fs::exists(machine))
      throw Error(Verdict::usage,
                  "lab view: this computer has not been measured yet: run ./lab calibrate; or give --machine "
                  "NAME, or --emulate NAME.");
  }
  arguments.insert(arguments.end(), {"--machine", machine});
  if (start.ranks == 0) arguments.insert(arguments.end(), {"--ranks", "2"});  // as many as there are processes
  arguments.insert(arguments.end(), {"--backend", "sim"});                    // whatever --config says
  return arguments;
}

/// Two runs, measured and simulated; of several contenders the last that both have. Their traces, and the first's exit
/// code.
struct Recorded {
  int code = 0;
  std::vector<std::string> traces;
};
Recorded record_with_twin(const Paths& paths, const std::string& command, std::vector<std::string> arguments,
                          const std::vector<std::string>& twin, const fs::path& folder, const CheckInto& check) {
  const bool emulates = !option(arguments, "--emulate", "", false).empty();
  if (command == "train" && !emulates) option(arguments, "--machine", "", true);  // it is the prediction's alone
  const fs::path measured = folder / (emulates ? "emulated by processes" : "measured on processes"),
                 simulated = folder / "simulated";
  Recorded both;
  for (const fs::path& own : {measured, simulated}) {
    fs::create_directories(own);
    const int code = record(paths, command, own == measured ? arguments : twin, own, check);
    if (code != 0) return {code, {}};
  }
  const std::vector<std::string> traces = traces_in(simulated);
  const auto pair = std::find_if(traces.rbegin(), traces.rend(), [&](const std::string& trace) {
    return fs::exists(measured / fs::path(trace).filename());
  });
  if (pair == traces.rend()) throw Error(Verdict::usage, "lab view: the two runs have no contender in common.");
  for (const fs::path& own : {measured, simulated}) {
    both.traces.push_back(own.string() + ".json");
    fs::rename(own / fs::path(*pair).filename(), both.traces.back());
  }
  return both;
}

}  // namespace

int view(const Paths& paths, std::vector<std::string> arguments, const CheckInto& check) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") {
    fmt::print("{}", kViewHelp);
    return arguments.empty() ? 2 : 0;
  }
  std::string out = option(arguments, "--out", "", true);
  const bool predicted = std::erase(arguments, "--predicted") > 0;
  const std::vector<std::string> commands{"check", "train", "bench", "pipeline"};
  const std::string command = arguments.empty() ? "" : arguments[0];
  const bool records = std::find(commands.begin(), commands.end(), command) != commands.end();
  if (predicted && command != "train" && command != "bench")
    throw Error(Verdict::usage, "lab view: --predicted is for train and bench.");
  const fs::path all = paths.source / "outputs" / "view", folder = all / (records ? command : "");
  Recorded runs{.traces = arguments};
  if (records) {
    arguments.erase(arguments.begin());
    if (command != "check") refuse_what_cannot_be(paths, command, arguments);
    const std::vector<std::string> twin =
        predicted ? simulated_twin(paths, command, arguments) : std::vector<std::string>{};
    fs::remove_all(folder);
    fs::create_directories(folder);
    if (predicted) {
      runs = record_with_twin(paths, command, arguments, twin, folder, check);
    } else {
      runs.code = record(paths, command, arguments, folder, check);
      runs.traces = traces_in(folder);
    }
    if (runs.traces.empty() && runs.code != 0) {
      fmt::print(stderr, "lab view: nothing was recorded, so there is no page{}.\n",
                 command == "check"
                     ? ": the test that failed has no messages to show, or did not run; the verdict above says why"
                     : "");
      return runs.code;
    }
    if (runs.traces.empty())
      throw Error(Verdict::usage,
                  "lab view: nothing was recorded, since every case passed: choose one with --ranks 4 --size 8.");
  }
  if (out.empty()) {
    fs::create_directories(all);
    out = fs::proximate(all / (records ? command + ".html" : "run.html")).string();
  }
  need_built(paths, {"why"}, "view");
  std::vector<std::string> page{paths.program("why").string(), "view", "--out", out};
  if (runs.traces.size() == 2 && (!records || command == "bench" || predicted))
    page.emplace_back(predicted ? "--ghost" : "--together");
  page.insert(page.end(), runs.traces.begin(), runs.traces.end());
  flush_output();
  const Ended ended = run_command({.arguments = page});
  return ended.ok() ? runs.code : ended.exit_code;
}

}  // namespace lockstep::tools
