#include "tools/course/drill.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "common/error.hpp"
#include "common/support/text/fnv.hpp"
#include "common/support/text/nearest.hpp"
#include "tools/course/commands.hpp"
#include "tools/course/deeds.hpp"
#include "tools/course/process.hpp"

namespace lockstep::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHelp =
    "./lab drill               the drills, and what became of each\n"
    "./lab drill 21            runs a program that is wrong, and leaves what there is to see in outputs/drills/21\n"
    "./lab drill check 21      judges outputs/drills/21/answer.txt; another file behind the number\n"
    "./lab drill 21 --new      another fault; what was there is kept beside it\n"
    "./lab drill 21 --seed S   the fault that others with this number have\n";

std::vector<Drill> all_drills(const Paths& paths) {
  std::vector<Drill> all;
  for (const Week& week : paths.course.weeks()) all.insert(all.end(), week.drills.begin(), week.drills.end());
  return all;
}

Drill find_drill(const Paths& paths, const std::string& id) {
  std::vector<std::string> known;
  for (const Drill& drill : all_drills(paths)) {
    if (drill.id == id) return drill;
    known.push_back(drill.id);
  }
  throw Error(Verdict::usage, unknown_name("drill", id, known));
}

fs::path folder_of(const Paths& paths, const std::string& id) { return paths.source / "outputs" / "drills" / id; }
fs::path seed_file(const Paths& paths, const std::string& id) { return folder_of(paths, id) / "seed"; }

constexpr std::uint64_t kSeeds = 1'000'000;

std::optional<std::uint64_t> number_in(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value >= kSeeds || (end != text.data() + text.size() && *end != '\n'))
    return std::nullopt;
  return value;
}

std::optional<std::uint64_t> kept_seed(const Paths& paths, const std::string& id) {
  return number_in(read_text(seed_file(paths, id)));
}

/// Of this clone, on this computer: neighbours have other faults.
std::uint64_t own_seed(const Paths& paths, const std::string& id) {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  Fnv1a hash;
  for (const std::string& part : {paths.source.string(), std::string(host), std::to_string(getuid()), id})
    hash.add(part);
  return hash.value() % kSeeds;
}

/// What an earlier fault left goes to the first free name of this kind.
void set_aside(const fs::path& folder) {
  if (!fs::exists(folder)) return;
  fs::path kept;
  for (int i = 1; kept.empty() || fs::exists(kept); ++i) kept = folder.string() + "." + std::to_string(i);
  fs::rename(folder, kept);
}

std::uint64_t choose_seed(const Paths& paths, const std::string& id, const std::vector<std::string>& options) {
  const auto kept = kept_seed(paths, id);
  const std::uint64_t current = kept.value_or(own_seed(paths, id));
  if (options.empty()) return current;
  if (options.size() == 1 && options[0] == "--new") return kept ? (current + 1) % kSeeds : current;
  if (options.size() == 2 && options[0] == "--seed")
    if (const auto seed = number_in(options[1])) return *seed;
  throw Error(Verdict::usage,
              fmt::format("lab drill {}: behind it stands --new, or --seed and a number below {}", id, kSeeds));
}

bool is_solved(const Paths& paths, const std::string& id) {
  const std::vector<Deed> deeds = read_deeds(paths);
  return std::any_of(deeds.begin(), deeds.end(),
                     [&](const Deed& deed) { return deed.what == "solved" && deed.exercise == "drill-" + id; });
}

std::string state_of(const Paths& paths, const std::string& id) {
  if (is_solved(paths, id)) return "solved";
  return kept_seed(paths, id) ? "begun" : "-";
}

int run(const Paths& paths, const std::string& id, const std::vector<std::string>& options) {
  const std::uint64_t seed = choose_seed(paths, id, options);
  const fs::path folder = folder_of(paths, id);
  if (kept_seed(paths, id) != seed) set_aside(folder);
  write_text(seed_file(paths, id), std::to_string(seed) + "\n");
  return run_command({.arguments = {paths.program("drill").string(), "run", id, "--seed", std::to_string(seed), "--out",
                                    folder.string()},
                      .folder = paths.source})
      .exit_code;
}

int check(const Paths& paths, const std::string& id, const fs::path& answer) {
  const auto seed = kept_seed(paths, id);
  if (!seed) throw Error(Verdict::usage, fmt::format("drill {0} was not run yet: ./lab drill {0}", id));
  const int code = run_command({.arguments = {paths.program("drill").string(), "check", id, "--seed",
                                              std::to_string(*seed), "--answer", answer.string()}})
                       .exit_code;
  if (code == 0 && !is_solved(paths, id)) add_deed(paths, "solved", "drill-" + id);
  return code;
}

}  // namespace

std::string format_drills(const Paths& paths, const std::vector<Drill>& drills) {
  std::string text;
  const Style s = style();
  for (const Drill& drill : drills) {
    const std::string state = state_of(paths, drill.id);
    text += fmt::format("  drill {}{}{:>4} min {:>10}  {}  {}{}{}\n", padded(drill.id, 7), padded(drill.title, 66),
                        drill.minutes, "", drill.core ? "core " : "extra",
                        state == "solved"  ? s.good
                        : state == "begun" ? s.open
                                           : s.faint,
                        state, s.off);
  }
  return text;
}

std::string count_drills(const Paths& paths) {
  int core = 0, solved = 0;
  for (const Drill& drill : all_drills(paths))
    if (drill.core) ++core, solved += is_solved(paths, drill.id);
  return core == 0 ? "" : fmt::format("{} of {} core drills solved", solved, core);
}

int play_drill(const Paths& paths, std::vector<std::string> arguments) {
  const bool checks = arguments[0] == "check";
  if (checks) arguments.erase(arguments.begin());
  if (arguments.empty()) throw Error(Verdict::usage, "which drill? For example: ./lab drill check 21");
  const std::string id = find_drill(paths, arguments[0]).id;
  arguments.erase(arguments.begin());
  if (!checks) return run(paths, id, arguments);
  if (arguments.size() > 1)
    throw Error(Verdict::usage, fmt::format("lab drill check {}: behind it stands one file, or none", id));
  return check(paths, id, arguments.empty() ? folder_of(paths, id) / "answer.txt" : fs::absolute(arguments[0]));
}

int drill(const Paths& paths, const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    fmt::print("{}{}\n", format_drills(paths, all_drills(paths)), count_drills(paths));
    return 0;
  }
  if (arguments[0] == "--help" || arguments[0] == "-h") {
    fmt::print("{}", kHelp);
    return 0;
  }
  if (arguments[0] != "check") (void)find_drill(paths, arguments[0]);  // before anything is built
  const Built built = build_targets(paths, {"drill"}, "drill");
  if (!built.ok) throw Error(Verdict::usage, fmt::format("drill cannot be built:\n{}", built.log));
  return play_drill(paths, arguments);
}

}  // namespace lockstep::tools
