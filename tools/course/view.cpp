// ./lab view: records a run, or takes traces that there are, and writes the page that plays it.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "common/error.hpp"
#include "common/support/text/run_program.hpp"
#include "tools/course/commands.hpp"
#include "tools/course/process.hpp"

namespace lockstep::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kViewHelp =
    "./lab view FILE                                a trace: of ./lab train --trace, of a check, of a drill\n"
    "./lab view A B                                 two traces side by side on one time axis\n"
    "./lab view check 21.2 --ranks 4 --size 8       your answer in this case; without a case, those that fail\n"
    "./lab view train --pp 4 --schedule 1f1b …      a training run, with --mine of your code\n"
    "./lab view bench ddp …                         one step without overlap and one with it, side by side\n"
    "./lab view pipeline --schedule 1f1b …          a schedule\n"
    "Each writes one HTML page to outputs/view/, which any browser opens from disk. --out FILE.html: another place.\n";

/// The value of "--out FILE", taken out of the arguments.
std::string take_out(std::vector<std::string>& arguments) {
  const auto at = std::find(arguments.begin(), arguments.end(), "--out");
  if (at == arguments.end()) return "";
  if (at + 1 == arguments.end()) throw Error(Verdict::usage, "--out wants a value.");
  const std::string out = *(at + 1);
  arguments.erase(at, at + 2);
  return out;
}

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

/// Runs the command with what makes it record; its exit code. What it records is in `folder`.
int record(const Paths& paths, const std::string& command, std::vector<std::string> arguments, const fs::path& folder,
           const CheckInto& check) {
  if (command == "check") return check(folder.string() + "/", arguments);
  const auto add = [&](const char* option, const std::string& value) {
    arguments.insert(arguments.end(), {option, (folder / value).string()});
  };
  if (std::find(arguments.begin(), arguments.end(), "--trace") != arguments.end())
    throw Error(Verdict::usage, "lab view: leave --trace out, the page has all that is recorded.");
  if (command == "train") {
    add("--trace", "train.json");
    if (std::find(arguments.begin(), arguments.end(), "--phantom") != arguments.end())
      arguments.emplace_back("--every-rank");  // a trace of one rank a stage does not say what the others wait for
    return run_forward(paths, "train", arguments);
  }
  if (command == "pipeline") {
    add("--trace", "pipeline.json");
    return run_forward(paths, target_of("pipeline"), arguments);
  }
  if (arguments.empty() || arguments[0] != "ddp")
    throw Error(Verdict::usage,
                "lab view: of the benchmarks ddp alone records what happens when; ./lab view pipeline, train and check "
                "do too.");
  arguments.erase(arguments.begin());
  add("--timeline", "ddp");
  return run_forward(paths, "bench_ddp", arguments);
}

}  // namespace

int view(const Paths& paths, std::vector<std::string> arguments, const CheckInto& check) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") {
    fmt::print("{}", kViewHelp);
    return arguments.empty() ? 2 : 0;
  }
  std::string out = take_out(arguments);
  const std::vector<std::string> commands{"check", "train", "bench", "pipeline"};
  const std::string command = arguments[0];
  const bool records = std::find(commands.begin(), commands.end(), command) != commands.end();
  const fs::path all = paths.source / "outputs" / "view", folder = all / (records ? command : "");
  int code = 0;
  std::vector<std::string> traces = arguments;
  if (records) {
    fs::remove_all(folder);
    fs::create_directories(folder);
    arguments.erase(arguments.begin());
    code = record(paths, command, arguments, folder, check);
    traces = traces_in(folder);
    if (traces.empty() && code != 0) return code;
    if (traces.empty())
      throw Error(Verdict::usage,
                  "lab view: nothing was recorded, since every case passed: choose one with --ranks 4 --size 8.");
  }
  if (out.empty()) {
    fs::create_directories(all);
    out = fs::proximate(all / (records ? command + ".html" : "run.html")).string();
  }
  need_built(paths, {"why"}, "view");
  std::vector<std::string> page{paths.program("why").string(), "view", "--out", out};
  if (traces.size() == 2 && (!records || command == "bench")) page.emplace_back("--together");
  page.insert(page.end(), traces.begin(), traces.end());
  flush_output();
  const Ended ended = run_command({.arguments = page});
  return ended.ok() ? code : ended.exit_code;
}

}  // namespace lockstep::tools
