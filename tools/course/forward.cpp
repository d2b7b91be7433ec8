// ./lab bench, train and profile: build the program for the backend, then become it, or what starts it.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>

#include "common/error.hpp"
#include "common/support/text/nearest.hpp"
#include "common/support/text/parse_number.hpp"
#include "common/support/text/run_program.hpp"
#include "common/support/text/trim.hpp"
#include "tools/course/commands.hpp"
#include "tools/course/mine.hpp"
#include "tools/course/predict.hpp"
#include "tools/course/process.hpp"

namespace lockstep::tools {
namespace {

/// True if `flag` is among `arguments`, from which it is erased.
bool flag(std::vector<std::string>& arguments, const std::string& name) { return std::erase(arguments, name) > 0; }

/// The largest of the numbers, which are separated by commas.
int largest(const std::string& flag, const std::string& text) {
  int most = 0;
  for (const std::string& number : split(text)) {
    const int value = parse_number<int>(number).value_or(0);
    if (value < 1)
      throw Error(Verdict::usage, fmt::format("{} needs whole numbers of at least 1, not '{}'.", flag, text));
    most = std::max(most, value);
  }
  return most;
}

bool asks_for_help(const std::vector<std::string>& arguments) {
  return std::any_of(arguments.begin(), arguments.end(),
                     [](const std::string& a) { return a == "--help" || a == "-h"; });
}

/// A command that calculates, or copies: no run.
bool is_by_formula(const std::vector<std::string>& arguments) {
  return !arguments.empty() && (arguments[0] == "--flops" || arguments[0] == "--export");
}

/// True if more options are in a file.
bool has_config(const std::string& target, std::vector<std::string> arguments) {
  return target == "train" && !option(arguments, "--config", "", false).empty();
}

/// The same of ./lab train, from the program itself, which alone knows what its options and --config come to.
Start start_of_training(const Paths& paths, const std::vector<std::string>& arguments) {
  need_built(paths, {"train_sim"}, "train");
  std::string said;
  Command ask{.arguments = {paths.program("train_sim").string(), "--print-start"}, .folder = {}};
  ask.arguments.insert(ask.arguments.end(), arguments.begin(), arguments.end());
  ask.on_line = [&](std::string_view line) { said += (said.empty() ? "" : "\n") + std::string(line); };
  if (!run_command(ask).ok()) throw Error(Verdict::usage, said);
  const auto space = said.rfind(' ');
  const auto ranks = parse_number<int>(said.substr(std::min(space, said.size() - 1) + 1));
  if (!ranks)
    throw Error(Verdict::usage,
                fmt::format("train_sim --print-start printed '{}', expected a backend and a number of ranks", said));
  const std::string backend = said.substr(0, space);
  return {backend == "-" ? "sim" : backend, *ranks};
}

/// Takes the options for processes out of the command line, except --ranks, which the program reads too.
Launch launch_options(const Paths& paths, const std::string& target, std::vector<std::string>& arguments,
                      const std::vector<std::string>& around) {
  Launch how{.around = around};
  const std::string launcher = option(arguments, "--launcher", "", true),
                    nodes = option(arguments, "--nodes", "", true);
  how.hostfile = option(arguments, "--hostfile", "", true);
  const Start start = start_of(paths, target, arguments);
  const bool in_file = option(arguments, "--backend", "", true).empty();
  if (in_file && (start.backend == "cuda" || start.backend == "nccl"))
    throw Error(Verdict::usage, fmt::format("lab train: the --config file has backend = {0}, for which ./lab needs "
                                            "another build: add --backend {0} to the command",
                                            start.backend));
  how.backend = start.backend == "serial" ? "sim" : start.backend;  // the serial program is the simulator's
  if (start.backend == "serial" || has_config(target, arguments))   // which may say otherwise
    arguments.insert(arguments.end(), {"--backend", start.backend});
  check_backend(paths, how.backend);
  if (!has_processes(how.backend)) {
    if (launcher.empty() && nodes.empty() && how.hostfile.empty()) return how;
    throw Error(Verdict::usage, fmt::format("--launcher, --nodes and --hostfile are for --backend mpi and nccl: {} is "
                                            "one process.",
                                            how.backend));
  }
  if (!nodes.empty()) how.nodes = largest("--nodes", nodes);
  how.processes = start.ranks > 0 ? start.ranks : how.backend == "nccl" ? how.nodes * gpus_here() : 2;
  if (!launcher.empty()) how.launcher = launcher;
  check_processes(how);  // before anything is built
  return how;
}

/// Nsight Systems: on PATH, or where NVIDIA's installers put it. Empty: not there.
std::string find_nsys() {
  std::string nsys = find_program("nsys");
  if (nsys.empty()) nsys = find_program("/usr/local/cuda/bin/nsys");
  std::error_code none;
  for (const auto& version : std::filesystem::directory_iterator("/opt/nvidia/nsight-systems", none))
    if (nsys.empty()) nsys = find_program((version.path() / "bin" / "nsys").string());
  return nsys;
}

/// Names of the benchmarks in this build, as CMake wrote them.
std::vector<std::string> known_benchmarks(const Paths& paths) {
  std::ifstream in(paths.build / "benchmarks.txt");
  std::vector<std::string> names;
  for (std::string name; in >> name;) names.push_back(name);
  return names;
}

void need_benchmarks(const std::vector<std::string>& known) {
  if (known.empty())
    throw Error(Verdict::usage,
                "this build has no benchmarks, because Google Benchmark was not found: ./lab setup installs it.");
}

/// The code that a program runs, the learner's or the reference's.
struct Whose {
  bool mine = false;
  bool borrow = true;
};
Whose whose_options(std::vector<std::string>& arguments) {
  Whose whose{.mine = flag(arguments, "--mine")};
  whose.borrow = !flag(arguments, "--no-borrow");
  if (!whose.borrow && !whose.mine)
    throw Error(Verdict::usage, "--no-borrow needs --mine: without it the reference's code runs.");
  return whose;
}

/// Builds TARGET_BACKEND; the command line that runs it.
std::vector<std::string> built_command(const Paths& paths, const std::string& target,
                                       std::vector<std::string> arguments, const std::vector<std::string>& around) {
  const Whose whose = whose_options(arguments);
  Launch how = launch_options(paths, target, arguments, around);
  if (target == "train") how.grace_seconds = 600;
  std::string program = target + "_" + how.backend;
  const bool copies = !arguments.empty() && arguments[0] == "--export";
  const bool runs = !asks_for_help(arguments), has_answers = !copies && !exercises_of(paths, program).empty();
  std::string code = "reference";
  if (whose.mine && runs) {
    if (!has_answers)
      throw Error(Verdict::usage, fmt::format("{} runs no exercise's code, so --mine would change nothing.",
                                              copies ? "lab export" : program));
    code = build_mine(paths, {program}, whose.borrow);
    program = "mine." + program;
  } else {
    need_built(paths, {program}, program);
  }
  if (runs && has_answers) fmt::print("code: {}\n", code);
  auto command = launch(paths, paths.program(program), how);
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

}  // namespace

std::string option(std::vector<std::string>& arguments, const std::string& flag, const std::string& otherwise,
                   bool take) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    bool joined = arguments[i].starts_with(flag + "=");
    if (!joined && arguments[i] != flag) continue;
    if (!joined && i + 1 == arguments.size()) throw Error(Verdict::usage, flag + " needs a value.");
    std::string value = joined ? arguments[i].substr(flag.size() + 1) : arguments[i + 1];
    auto at = arguments.begin() + static_cast<std::ptrdiff_t>(i);
    if (take) arguments.erase(at, at + (joined ? 1 : 2));
    return value;
  }
  return otherwise;
}

Start start_of(const Paths& paths, const std::string& target, std::vector<std::string> arguments) {
  Start start{.backend = option(arguments, "--backend", "sim", false)};
  const bool alone = is_by_formula(arguments) || (!arguments.empty() && arguments[0] == "--volume");
  if (asks_for_help(arguments) || alone) return {start.backend, 1};
  if (target == "train" && (has_processes(start.backend) || has_config(target, arguments)))
    return start_of_training(paths, arguments);
  if (const std::string ranks = option(arguments, "--ranks", "", false); has_processes(start.backend) && !ranks.empty())
    start.ranks = largest("--ranks", ranks);
  return start;
}

std::string target_of(const std::string& command) {
  if (command == "memory") return "bench_memory";
  return command == "pipeline" ? "bench_schedule" : command;
}

void need_in_handout(const Paths& paths, const std::string& target, const std::string& command) {
  if (is_handout(paths) && !std::filesystem::exists(paths.build / "answers" / (target + "_sim")))
    throw Error(Verdict::usage,
                fmt::format("./lab {} is not in this handout: it runs exercises of other weeks.", command));
}

int forward(const Paths& paths, const std::string& target, std::vector<std::string> arguments,
            const std::vector<std::string>& around) {
  for (const auto& [name, command] :
       {std::pair("plan", "plan"), std::pair("scale", "scale"), std::pair("bench_schedule", "pipeline")})
    if (target == name) need_in_handout(paths, target, command);
  const bool mine = std::find(arguments.begin(), arguments.end(), "--mine") != arguments.end();
  const std::string predicted = format_predictions_of_run(paths, target, arguments);
  const std::vector<std::string> command = built_command(paths, target, std::move(arguments), around);
  flush_output();
  if (!mine && predicted.empty()) become(command);
  const Ended ended = run_command({.arguments = command});
  fmt::print("{}", predicted);
  if (const int signal = ended.exit_code > 128 ? ended.exit_code - 128 : 0;
      mine && signal != 0 && signal != SIGINT && signal != SIGTERM)
    fmt::print(stderr,
               "The program was killed by signal {} ({}) while your code was in it. ./lab check says more about each "
               "exercise; run the same without --mine to see whether your code is the cause.\n",
               signal, strsignal(signal));
  return ended.exit_code;
}

int run_forward(const Paths& paths, const std::string& target, std::vector<std::string> arguments) {
  const std::vector<std::string> command = built_command(paths, target, std::move(arguments), {});
  flush_output();
  return run_command({.arguments = command}).exit_code;
}

int trace_tool(const Paths& paths, const std::string& command, std::vector<std::string> arguments) {
  if (command == "why" && !arguments.empty() && arguments[0] != "train" && near(arguments[0], "train") &&
      !std::filesystem::exists(arguments[0]))
    throw Error(Verdict::usage, fmt::format("lab why: there is no trace '{}': did you mean 'train'?", arguments[0]));
  need_built(paths, {"why"}, command);
  Ended trained;
  if (command == "why" && !arguments.empty() && arguments[0] == "train") {
    arguments.erase(arguments.begin());
    const std::filesystem::path folder = paths.source / "outputs" / "why";
    std::filesystem::create_directories(folder);
    const std::string trace = option(arguments, "--trace", (folder / "trace.json").string(), true);
    arguments.insert(arguments.end(), {"--trace", trace});
    if (option(arguments, "--sample", "", false).empty()) arguments.insert(arguments.end(), {"--sample", "0"});
    if (std::find(arguments.begin(), arguments.end(), "--phantom") != arguments.end())
      arguments.emplace_back("--every-rank");  // a trace of one rank a stage does not say what the others wait for
    std::error_code none;
    std::filesystem::remove(trace, none);
    trained = run_command({.arguments = built_command(paths, "train", arguments, {})});
    if (!std::filesystem::exists(trace)) return trained.exit_code;
    fmt::print("\n");
    arguments = {trace};
  }
  arguments.insert(arguments.begin(), {paths.program("why").string(), command});
  flush_output();
  const Ended ended = run_command({.arguments = arguments});
  return trained.ok() ? ended.exit_code : trained.exit_code;
}

void check_benchmark(const Paths& paths, const std::string& name) {
  const auto known = known_benchmarks(paths);
  need_benchmarks(known);
  check_known("benchmark", name, known);
}

int bench(const Paths& paths, std::vector<std::string> arguments, const std::vector<std::string>& around) {
  auto known = known_benchmarks(paths);
  need_benchmarks(known);
  if (arguments.empty() || arguments[0].starts_with("-")) {
    fmt::print(
        "usage: ./lab bench NAME [--backend sim|mpi|cuda|nccl] [--ranks P] …; ./lab bench NAME --help lists its "
        "options.\n"
        "mpi and nccl: [--launcher auto|mpirun|srun|local] [--nodes N] [--hostfile FILE]\n");
    for (const std::string& name : known) fmt::print("  {}\n", name);
    return arguments.empty() ? 2 : 0;
  }
  const std::string name = arguments[0];
  check_benchmark(paths, name);
  arguments.erase(arguments.begin());
  return forward(paths, "bench_" + name, arguments, around);
}

int calibrate(const Paths& paths, std::vector<std::string> arguments) {
  need_benchmarks(known_benchmarks(paths));
  if (option(arguments, "--backend", "", false).empty()) arguments.insert(arguments.end(), {"--backend", "mpi"});
  return forward(paths, "bench_calibrate", arguments);
}

int profile(const Paths& paths, std::vector<std::string> arguments) {
  const std::vector<std::string> known{"bench", "train"};
  if (arguments.empty() || std::find(known.begin(), known.end(), arguments[0]) == known.end())
    throw Error(Verdict::usage, "./lab profile needs a command to run: bench NAME … or train …");
  const std::string nsys = find_nsys();
  if (nsys.empty())
    throw Error(Verdict::usage,
                "Nsight Systems (nsys) is not installed: NVIDIA's package nsight-systems brings it; without it, "
                "./lab train --trace draws a timeline.");
  const std::string command = arguments[0];
  arguments.erase(arguments.begin());
  const std::filesystem::path folder = paths.source / "outputs" / "profile";
  std::filesystem::create_directories(folder);
  const std::string name = command == "bench" && !arguments.empty() ? arguments[0] : command;
  const std::vector<std::string> around{"sh", (paths.source / "launch" / "profile_rank.sh").string(), nsys,
                                        (folder / name).string()};
  return command == "bench" ? bench(paths, arguments, around) : forward(paths, "train", arguments, around);
}

}  // namespace lockstep::tools
