// ./lab bench and ./lab train: build the program for the backend, then become it.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fstream>

#include "common/error.hpp"
#include "common/text/nearest.hpp"
#include "tools/commands.hpp"
#include "tools/process.hpp"

namespace lockstep::tools {
namespace {

/// The value of "--flag VALUE" or "--flag=VALUE", or `otherwise`; erased from `arguments` if `take`.
std::string option(std::vector<std::string>& arguments, const std::string& flag, const std::string& otherwise,
                   bool take) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    bool joined = arguments[i].starts_with(flag + "=");
    if (!joined && arguments[i] != flag) continue;
    if (!joined && i + 1 == arguments.size()) throw Error(Verdict::usage, flag + " wants a value.");
    std::string value = joined ? arguments[i].substr(flag.size() + 1) : arguments[i + 1];
    auto at = arguments.begin() + static_cast<std::ptrdiff_t>(i);
    if (take) arguments.erase(at, at + (joined ? 1 : 2));
    return value;
  }
  return otherwise;
}

/// As many processes as the largest of the numbers, which are separated by commas.
int number_of_processes(const std::string& text) {
  int most = 0;
  const char* end = text.data() + text.size();
  for (const char* at = text.data(); most >= 0;) {
    int value = 0;
    auto [next, error] = std::from_chars(at, end, value);
    most = error == std::errc{} && value >= 1 ? std::max(most, value) : -1;
    if (next == end) break;
    if (*next != ',') most = -1;
    at = next + 1;
  }
  if (most < 0) throw Error(Verdict::usage, fmt::format("--ranks wants whole numbers of at least 1, not '{}'.", text));
  return most;
}

/// Names of the benchmarks in this build, as CMake wrote them.
std::vector<std::string> known_benchmarks(const Workshop& shop) {
  std::ifstream in(shop.build / "benchmarks.txt");
  std::vector<std::string> names;
  for (std::string name; in >> name;) names.push_back(name);
  return names;
}

}  // namespace

int forward(const Workshop& shop, const std::string& target, std::vector<std::string> arguments) {
  std::string backend = option(arguments, "--backend", "sim", true);
  if (backend == "serial") {  // the serial program is the simulator's, on one rank
    arguments.insert(arguments.end(), {"--backend", backend});
    backend = "sim";
  }
  check_backend(shop, backend);
  std::string program = target + "_" + backend;
  int processes = backend == "mpi" ? number_of_processes(option(arguments, "--ranks", "2", false)) : 1;
  Built built = build_targets(shop, {program}, program);
  if (!built.ok) throw Error(Verdict::usage, fmt::format("{} cannot be built:\n{}", program, built.log));
  auto command = launch(shop, shop.program(program), backend, processes);
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::fflush(stdout);
  become(command);
}

int bench(const Workshop& shop, std::vector<std::string> arguments) {
  auto known = known_benchmarks(shop);
  if (arguments.empty() || arguments[0].starts_with("-")) {
    fmt::print("usage: ./lab bench NAME [--backend sim|mpi] [--ranks P] …; ./lab bench NAME --help says the rest.\n");
    for (const std::string& name : known) fmt::print("  {}\n", name);
    return arguments.empty() ? 2 : 0;
  }
  std::string name = arguments[0];
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    throw Error(Verdict::usage, unknown_name("benchmark", name, known));
  }
  arguments.erase(arguments.begin());
  return forward(shop, "bench_" + name, arguments);
}

}  // namespace lockstep::tools
