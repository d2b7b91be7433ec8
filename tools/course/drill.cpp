#include "tools/course/drill.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "common/error.hpp"
#include "common/support/text/fnv.hpp"
#include "common/support/text/nearest.hpp"
#include "common/support/text/parse_number.hpp"
#include "common/support/text/run_program.hpp"
#include "tools/course/commands.hpp"
#include "tools/course/deeds.hpp"
#include "tools/course/mine.hpp"
#include "tools/course/process.hpp"
#include "tools/course/states.hpp"

namespace lockstep::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHelp =
    "./lab drill               the drills, and your results\n"
    "./lab drill 21            runs a program with a fault, and writes the evidence to outputs/drills/21\n"
    "./lab drill check 21      checks outputs/drills/21/answer.txt; or give another file after the number\n"
    "./lab drill 21 --new      another fault; the old folder is kept\n"
    "./lab drill 21 --seed S   the same fault as everyone who uses this seed\n"
    "./lab drill 21 --mine     with your code in the program, where it passes\n";

std::vector<Drill> all_drills(const std::vector<Week>& weeks) {
  std::vector<Drill> all;
  for (const Week& week : weeks) all.insert(all.end(), week.drills.begin(), week.drills.end());
  return all;
}

Drill find_drill(const Paths& paths, const std::string& id) {
  return find_known("drill", id, all_drills(paths.course.weeks()), &Drill::id);
}

fs::path folder_of(const Paths& paths, const std::string& id) { return paths.source / "outputs" / "drills" / id; }
fs::path seed_file(const Paths& paths, const std::string& id) { return folder_of(paths, id) / "seed"; }

constexpr std::uint64_t kSeeds = 1'000'000;

std::optional<std::uint64_t> number_in(const std::string& text) {
  const auto value = parse_number<std::uint64_t>(text);
  return value && *value < kSeeds ? value : std::nullopt;
}

/// A learner's variant of a drill: "123 mine" in its folder.
struct Variant {
  std::uint64_t seed = 0;
  bool mine = false;  ///< the program runs the learner's code
  bool operator==(const Variant&) const = default;
};

std::optional<Variant> kept_variant(const Paths& paths, const std::string& id) {
  std::istringstream words(read_text(seed_file(paths, id)));
  std::string seed, whose;
  words >> seed >> whose;
  const auto number = number_in(seed);
  if (!number) return std::nullopt;
  return Variant{*number, whose == "mine"};
}

/// The seed of this clone on this computer, so that neighbours get other faults. It is the same for all weeks, and
/// modulo 30 it is one of those for which each week draws another kind of fault (tools/analyse/drill/drill_test.cpp): 2
/// to 11.
std::uint64_t own_seed(const Paths& paths) {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  Fnv1a hash;
  for (const std::string& part : {paths.source.string(), std::string(host), std::to_string(getuid())}) hash.add(part);
  const std::uint64_t number = hash.value() / 10 % (kSeeds / 30);
  return number * 30 + 2 + hash.value() % 10;
}

Variant choose(const Paths& paths, const std::string& id, std::vector<std::string> options) {
  const auto kept = kept_variant(paths, id);
  Variant variant{.seed = kept ? kept->seed : own_seed(paths), .mine = std::erase(options, "--mine") > 0};
  if (options.empty()) return variant;
  if (options.size() == 1 && options[0] == "--new") {
    if (kept) variant.seed = (kept->seed + 1) % kSeeds;
    return variant;
  }
  const auto seed = options.size() == 2 && options[0] == "--seed" ? number_in(options[1]) : std::nullopt;
  if (!seed)
    throw Error(
        Verdict::usage,
        fmt::format("lab drill {}: may be followed by --new, --mine, or --seed and a number below {}", id, kSeeds));
  variant.seed = *seed;
  return variant;
}

std::string state_of(const Paths& paths, const std::string& id) {
  if (is_solved(paths, "drill-" + id)) return "solved";
  return kept_variant(paths, id) ? "begun" : "-";
}

/// The program that runs and judges it.
int become_drill(const Paths& paths, const Variant& variant, std::vector<std::string> arguments) {
  const fs::path program = paths.program(variant.mine ? "mine.drill" : "drill");
  arguments.insert(arguments.begin(), program.string());
  arguments.insert(arguments.end(), {"--seed", std::to_string(variant.seed)});
  return run_command({.arguments = arguments, .folder = {}, .on_line = {}}).exit_code;
}

int run(const Paths& paths, const std::string& id, const Variant& variant) {
  const fs::path folder = folder_of(paths, id);
  if (kept_variant(paths, id) != variant && fs::exists(folder))
    fs::rename(folder, free_name(folder));  // nothing is lost
  write_text(seed_file(paths, id), fmt::format("{} {}\n", variant.seed, variant.mine ? "mine" : "reference"));
  return become_drill(paths, variant, {"run", id, "--out", folder.string()});
}

int check(const Paths& paths, const std::string& id, const Variant& variant, const fs::path& answer) {
  const int code = become_drill(paths, variant, {"check", id, "--answer", answer.string()});
  if (code == 0 && !is_solved(paths, "drill-" + id)) note_deed(paths, "solved", "drill-" + id);
  return code;
}

/// A parsed command line.
struct Wish {
  std::string id;
  Variant variant;
  bool checks = false;
  fs::path answer;
};

Wish read_wish(const Paths& paths, std::vector<std::string> arguments) {
  Wish wish{.checks = arguments[0] == "check"};
  if (wish.checks) arguments.erase(arguments.begin());
  if (arguments.empty()) throw Error(Verdict::usage, "which drill? For example: ./lab drill check 21");
  wish.id = find_drill(paths, arguments[0]).id;
  arguments.erase(arguments.begin());
  if (!wish.checks) {
    wish.variant = choose(paths, wish.id, arguments);
    return wish;
  }
  if (arguments.size() > 1)
    throw Error(Verdict::usage, fmt::format("lab drill check {}: at most one file may follow", wish.id));
  const auto kept = kept_variant(paths, wish.id);
  if (!kept) throw Error(Verdict::usage, fmt::format("drill {0} has not been run yet: ./lab drill {0}", wish.id));
  wish.variant = *kept;
  wish.answer = arguments.empty() ? folder_of(paths, wish.id) / "answer.txt" : fs::absolute(arguments[0]);
  return wish;
}

int grant(const Paths& paths, const Wish& wish) {
  return wish.checks ? check(paths, wish.id, wish.variant, wish.answer) : run(paths, wish.id, wish.variant);
}

void build(const Paths& paths, const Variant& variant) {
  if (variant.mine) {
    fmt::print("code: {}\n", build_mine(paths, {"drill"}, true));
    return flush_output();
  }
  need_built(paths, {"drill"}, "drill");
}

}  // namespace

std::string format_drills(const Paths& paths, const std::vector<Drill>& drills) {
  std::string text;
  const Style s = style();
  for (const Drill& drill : drills) {
    const std::string state = state_of(paths, drill.id);
    text += row_of_list("drill " + drill.id, drill.title + (drill.core ? "" : " (extra)"), drill.minutes, std::nullopt,
                        state,
                        state == "solved"  ? s.good
                        : state == "begun" ? s.open
                                           : s.faint);
  }
  return text;
}

std::optional<Drill> next_drill(const Paths& paths) {
  for (const Week& week : paths.weeks()) {
    const bool done = std::all_of(week.exercises.begin(), week.exercises.end(), [&](const Exercise& exercise) {
      const State state = state_of(paths, exercise);
      return !exercise.core || state.passes || state.borrowed;
    });
    for (const Drill& drill : week.drills)
      if (done && drill.core && !is_solved(paths, "drill-" + drill.id)) return drill;
  }
  return std::nullopt;
}

std::string describe_next(const Drill& drill) {
  return fmt::format("drill {0} {1}, {2} minutes: ./lab drill {0}", drill.id, drill.title, drill.minutes);
}

std::string count_drills(const Paths& paths) {
  int core = 0, solved = 0;
  for (const Drill& drill : all_drills(paths.weeks()))
    if (drill.core) ++core, solved += is_solved(paths, "drill-" + drill.id);
  return core == 0 ? "" : fmt::format("{} of {} core drills solved", solved, core);
}

int play_drill(const Paths& paths, const std::vector<std::string>& arguments) {
  return grant(paths, read_wish(paths, arguments));
}

int drill(const Paths& paths, const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    fmt::print("{}{}\n", format_drills(paths, all_drills(paths.weeks())), count_drills(paths));
    return 0;
  }
  if (arguments[0] == "--help" || arguments[0] == "-h") {
    fmt::print("{}", kHelp);
    return 0;
  }
  const Wish wish = read_wish(paths, arguments);  // before anything is built
  build(paths, wish.variant);
  return grant(paths, wish);
}

}  // namespace lockstep::tools
