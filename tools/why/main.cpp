// ./lab why FILE and ./lab diff A B, on traces that ./lab train --trace FILE.json wrote (or --trace of a lab's tests).
#include <fmt/core.h>

#include <charconv>
#include <cstdio>
#include <optional>

#include "common/analysis/diff.hpp"
#include "common/analysis/read_trace.hpp"
#include "common/analysis/why.hpp"
#include "common/error.hpp"
#include "common/text/nearest.hpp"

namespace {

using namespace lockstep;

constexpr const char* kHelp =
    "./lab why FILE [--step NAME] [--json FILE]    the critical path of a traced run, and what limits it\n"
    "./lab why train OPTIONS                       the same, of this run of ./lab train\n"
    "./lab diff A B [--top N] [--json FILE]        two traces, operation by operation\n"
    "FILE, A and B are what ./lab train --trace FILE.json writes, on any backend. --step: the phase of the program "
    "that\n"
    "is looked at (default: step; \"\": the whole run).\n";

const std::vector<OptionName> kOptions = {{"--step", "the phase of the program that is looked at"},
                                          {"--json", "a file for the rows"},
                                          {"--top", "how many operations"},
                                          {"--help", ""}};

struct Arguments {
  std::vector<std::string> files;
  std::string json, step = "step";
  std::size_t top = 15;
  bool help = false;
};

Arguments parse(int argc, char** argv) {
  Arguments a;
  for (int i = 2; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&] {
      if (i + 1 == argc) throw Error(Verdict::usage, argument + " wants a value");
      return std::string(argv[++i]);
    };
    if (argument == "--json") {
      a.json = value();
    } else if (argument == "--step") {
      a.step = value();
    } else if (argument == "--top") {
      const std::string text = value();
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), a.top);
      if (error != std::errc{} || end != text.data() + text.size())
        throw Error(Verdict::usage, fmt::format("--top wants a whole number, not '{}'", text));
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
  if (a.files.size() != count) throw Error(Verdict::usage, fmt::format("give {}: see --help", which));
  if (!a.json.empty()) check_writable(a.json);
}

void write_rows(const Arguments& a, const std::vector<Row>& rows) {
  if (a.json.empty()) return;
  Context context = Context::here();
  context.more.set("trace", a.files[0]);
  if (a.files.size() > 1) context.more.set("trace_b", a.files[1]);
  write_results(a.json, context, rows);
}

void why(const Arguments& a) {
  want_files(a, 1, "one trace, or train and its options");
  const analysis::Why found = analysis::why(read_chrome_trace(a.files[0]), a.step);
  fmt::print("{}", in_words(found));
  write_rows(a, rows(found));
}

void diff(const Arguments& a) {
  want_files(a, 2, "two traces");
  const analysis::Diff found = analysis::diff(read_chrome_trace(a.files[0]), read_chrome_trace(a.files[1]));
  fmt::print("A: {}\nB: {}\n{}", a.files[0], a.files[1], in_words(found, a.top));
  write_rows(a, rows(found));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "why";
  try {
    const Arguments arguments = parse(argc, argv);
    if (arguments.help)
      fmt::print("{}", kHelp);
    else
      command == "diff" ? diff(arguments) : why(arguments);
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "lab {}: {}\n", command, error.what());
    return error.verdict() == Verdict::usage ? 2 : 1;
  }
}
