#include "tools/course/card.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/error.hpp"
#include "common/support/json/document.hpp"
#include "common/support/text/files.hpp"
#include "tools/course/commands.hpp"
#include "tools/course/deeds.hpp"
#include "tools/course/process.hpp"

namespace lockstep::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCardHelp =
    "./lab card                           the design cards, and your results\n"
    "./lab card 1                         the task, and a file for your answer: outputs/cards/1.txt\n"
    "./lab card explain 1 dp=…,tp=…,pp=…  what that strategy costs, and where its time and memory go\n"
    "./lab card check 1                   checks your answer\n";

constexpr const char* kForm =
    "# strategy: dp, tp, pp, microbatch and zero, and anything else that matters to you, such as schedule=1f1b, "
    "chunks=2,\n"
    "#   recompute=full, sequence_parallel=true; what you leave out is set to its best value. \"none\" if nothing "
    "fits.\n"
    "# overhead: your strategy's largest cost besides compute: recomputation, tensor parallelism, bubble,\n"
    "#   pipeline hops, data parallelism (including the tied embedding's gradient, which two stages all-reduce) or "
    "optimizer.\n"
    "# more memory: yes if the best step of all strategies, not only yours, would be at least 2% faster on GPUs with\n"
    "#   unlimited memory, else no.\n"
    "# because: one sentence, for the person who pays for the GPUs.\n"
    "strategy: dp=, tp=, pp=, microbatch=, zero=\n"
    "overhead:\n"
    "more memory:\n"
    "because:\n";

fs::path answer_of(const Paths& paths, const std::string& id) {
  return paths.source / "outputs" / "cards" / (id + ".txt");
}

int list_cards(const Paths& paths) {
  const Style s = style();
  for (const Json& card : Json::parse(read_file((paths.source / "labs" / "week25_3d" / "cards.json").string()))) {
    const std::string id = card.at("id");
    const bool solved = is_solved(paths, "card-" + id), begun = fs::exists(answer_of(paths, id));
    fmt::print("  card {}  {}{}{}{}\n", id, padded(std::string(card.at("title")), 48),
               solved  ? s.good
               : begun ? s.open
                       : s.faint,
               solved  ? "solved"
               : begun ? "begun"
                       : "-",
               s.off);
  }
  return 0;
}

/// The planner's program with these arguments.
int become_planner(const Paths& paths, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), paths.program("plan_sim").string());
  return run_command({.arguments = std::move(arguments), .folder = {}, .on_line = {}}).exit_code;
}

}  // namespace

int play_card(const Paths& paths, const std::vector<std::string>& arguments) {
  const bool checks = arguments[0] == "check", explains = arguments[0] == "explain";
  if (arguments.size() != (explains ? 3u : checks ? 2u : 1u))
    throw Error(Verdict::usage,
                fmt::format("{}:\n{}", explains ? "which card, and which strategy" : "which card, and nothing else",
                            kCardHelp));
  if (explains) return become_planner(paths, {"--card", arguments[1], "--explain", arguments[2]});
  const std::string& id = arguments.back();
  if (checks) {
    if (!fs::exists(answer_of(paths, id)))
      throw Error(Verdict::usage, fmt::format("there is no outputs/cards/{0}.txt yet: ./lab card {0}", id));
    const int code = become_planner(paths, {"--card", id, "--answer", answer_of(paths, id).string()});
    if (code == 0 && !is_solved(paths, "card-" + id)) note_deed(paths, "solved", "card-" + id);
    return code;
  }
  if (const int code = become_planner(paths, {"--card", id}); code != 0) return code;
  try {
    if (!fs::exists(answer_of(paths, id))) write_text(answer_of(paths, id), kForm);
  } catch (const Error& error) {  // the task can be read
    fmt::print(stderr, "no file for your answer: {}\n", error.what());
    return 0;
  }
  fmt::print("Your answer goes into outputs/cards/{0}.txt; then ./lab card check {0}\n", id);
  return 0;
}

int card(const Paths& paths, const std::vector<std::string>& arguments) {
  if (!arguments.empty() && (arguments[0] == "--help" || arguments[0] == "-h")) {
    fmt::print("{}", kCardHelp);
    return 0;
  }
  need_in_handout(paths, "plan", "card");
  if (arguments.empty()) return list_cards(paths);
  need_built(paths, {"plan_sim"}, "plan");
  return play_card(paths, arguments);
}

}  // namespace lockstep::tools
