// ./lab handout: the suite for students, without the reference's text. The reference's objects go along, compiled here,
// so that an exercise can borrow what it needs and ./lab train runs; cmake/LockstepHandout.cmake says where they fit.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "common/error.hpp"
#include "common/support/json/document.hpp"
#include "common/support/text/files.hpp"
#include "tools/course/commands.hpp"
#include "tools/course/handed_out.hpp"
#include "tools/course/handout_pages.hpp"
#include "tools/course/leaks.hpp"
#include "tools/course/mine.hpp"
#include "tools/course/process.hpp"
#include "tools/course/skeleton.hpp"

namespace lockstep::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTop = "lockstep";  // the folder in the archive

// Files that tell of answers, or are of no use without them.
constexpr const char* kNotForStudents[] = {".ci",
                                           ".github",
                                           "CONTRIBUTING.md",
                                           "docs/maintain/adding-a-lab.md",
                                           "docs/pictures/draw.py",
                                           "docs/pictures/figures",  // simulates the answers that it draws
                                           "docs/results",
                                           "docs/teach",  // the instructor's; and which mistakes others made
                                           "examples",
                                           "tools/alternatives",
                                           "tools/calculators/playground",  // compiles answers into its page
                                           "tools/tests",
                                           "tools/fuzz",
                                           "launch/autolab",
                                           "launch/gradescope",
                                           "launch/tests",
                                           "launch/classroom",
                                           "common/runtime/tests",
                                           "common/devices/tests",
                                           "common/backends/tests",
                                           "common/gpt/tests",
                                           "common/testing/tests"};

/// "21-23", "21,22" or "21": weeks that the course has.
std::set<int> weeks_of(std::string_view text, const Course& course) {
  std::set<int> weeks;
  for (std::string_view rest = text; !rest.empty() || weeks.empty();) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    const std::vector<int> named = weeks_in(word);
    if (named.empty()) throw Error(Verdict::usage, fmt::format("--weeks needs 21-23 or 21,22, not '{}'.", text));
    weeks.insert(named.begin(), named.end());
  }
  for (const int week : weeks)
    if (std::none_of(course.weeks().begin(), course.weeks().end(), [&](const Week& w) { return w.number == week; }))
      throw Error(Verdict::usage, fmt::format("the course has no week {}.", week));
  return weeks;
}

std::string run_or_refuse(const std::vector<std::string>& arguments, const fs::path& folder) {
  return printed_by({.arguments = arguments, .folder = folder, .on_line = {}}, "the handout", arguments[0] + " failed");
}

/// At most `level` hints in every list of hints.
Json with_hints(const Json& json, std::size_t level) {
  if (json.is_array()) {
    std::vector<Json> all;
    for (const Json& each : json) all.push_back(with_hints(each, level));
    return Json::list(std::move(all));
  }
  if (!json.is_object()) return json;
  std::vector<Json::Member> members;
  for (const auto& [name, value] : json.items()) {
    std::vector<Json> kept;
    if (name == "hints")
      for (const Json& hint : value)
        if (kept.size() < level) kept.push_back(hint);
    members.push_back({name, name == "hints" ? Json::list(std::move(kept)) : with_hints(value, level)});
  }
  return Json::object(std::move(members));
}

/// The archive's tree, in a folder of its own until it is packed.
class Handout {
 public:
  Handout(const Paths& paths, const HandoutOptions& options)
      : paths_(paths),
        options_(options),
        weeks_(weeks_of(options.weeks, paths.course)),
        all_(paths.exercises()),
        scratch_(paths) {}

  void make() {
    refuse_uncommitted();
    const std::vector<std::string> objects = objects_needed();
    std::vector<std::string> targets;
    for (const std::string& id : objects) targets.push_back("ref." + id);
    need_built(paths_, targets, "the reference");
    check_out();
    for (const char* path : kNotForStudents) fs::remove_all(tree() / path);
    remove_tests_of_tools();
    for (const Week& week : paths_.course.weeks()) fs::remove_all(tree() / "tools" / "mutants" / week.folder);
    for (const Exercise& e : all_) strip(e, std::find(objects.begin(), objects.end(), e.id) != objects.end());
    for (const fs::path& given : given_files()) strip(given);
    remove_other_weeks();
    write_hints();
    write_prebuilt(objects);
    write_pages();
    refuse_what_tells();
    pack();
  }

 private:
  fs::path tree() const { return scratch_.path() / kTop; }

  /// Objects were made from the working tree, and texts come from the commit: they must agree. Answers in labs/ may be
  /// anything; skeletons are handed out.
  void refuse_uncommitted() const {
    for (const std::string& line :
         lines_of(run_or_refuse({"git", "-c", "core.quotePath=false", "diff", "--name-only", "HEAD"}, paths_.source))) {
      const bool answer = std::any_of(all_.begin(), all_.end(), [&](const Exercise& e) {
        return paths_.source / line == paths_.source / "labs" / e.folder / (e.name + ".cpp");
      });
      if (!answer)
        throw Error(Verdict::usage,
                    fmt::format("{} differs from its commit, and a handout contains only what is committed: commit "
                                "your changes, or put them aside with 'git stash'.",
                                line));
    }
  }

  /// Removes tests of tools, which a handout does not build.
  void remove_tests_of_tools() const {
    std::vector<fs::path> tests;
    for (const auto& entry : fs::recursive_directory_iterator(tree() / "tools"))
      if (entry.is_regular_file() && entry.path().stem().string().ends_with("_test")) tests.push_back(entry.path());
    for (const fs::path& test : tests) fs::remove(test);
  }

  std::vector<fs::path> given_files() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(paths_.source / "solutions" / "given")) all.push_back(entry.path());
    std::sort(all.begin(), all.end());
    return all;
  }

  /// Ids of the answers whose objects go along: the weeks' exercises (`check` compares with them), their needs, the
  /// answers in ./lab train and week 21's ./lab bench compression, and files that are given compiled.
  std::vector<std::string> objects_needed() const {
    std::set<std::string> needed = linked_by(paths_, "train_sim");
    needed.merge(linked_by(paths_, "bench_compression_sim"));
    for (const Exercise& e : all_) {
      if (!weeks_.contains(e.week)) continue;
      needed.insert(e.id);
      for (const Exercise& need : paths_.course.all_needs(e.id)) needed.insert(need.id);
    }
    std::vector<std::string> ids;
    for (const Exercise& e : all_)
      if (needed.contains(e.id)) ids.push_back(e.id);
    for (const fs::path& given : given_files()) ids.push_back(given.stem());
    return ids;
  }

  void check_out() const {
    const fs::path tar = scratch_.path() / "tree.tar";
    run_or_refuse({"git", "archive", "--format=tar", fmt::format("--prefix={}/", kTop), "-o", tar.string(), "HEAD"},
                  paths_.source);
    run_or_refuse({"cmake", "-E", "tar", "xf", tar.string()}, scratch_.path());
  }

  /// A solution becomes what skeletons and stubs are made from, and keeps no answer; or goes, if nothing here needs it.
  void strip(const Exercise& e, bool needed) {
    for (const fs::path& from : {paths_.solution(e), paths_.hard_solution(e)}) {
      if (!fs::exists(from)) continue;
      const std::string start = strip(from);
      if (from == paths_.solution(e) && weeks_.contains(e.week))
        for (const char* place : {"labs", "prebuilt/skeletons"})  // the second is what ./lab update compares with
          write_text(tree() / place / e.folder / (e.name + ".cpp"), start);
      if (!needed) fs::remove(in_tree(from));
    }
  }

  /// Removes the answers of a file in solutions/, and remembers them. Its skeleton.
  std::string strip(const fs::path& from) {
    const fs::path to = in_tree(from);
    const std::string committed = read_text(to), stripped = without_answers(committed, to.string());
    const std::string start = skeleton(committed, to.string());
    if (skeleton(stripped, to.string()) != start)
      throw Error(Verdict::usage,
                  fmt::format("{}: its skeleton cannot be generated without its answers", from.string()));
    write_text(to, stripped);
    leaks_.add(committed, to.string());
    return start;
  }

  fs::path in_tree(const fs::path& file) const { return tree() / fs::relative(file, paths_.source); }

  /// Removes weeks that are not handed out, except their interfaces, which the trainer is compiled with.
  void remove_other_weeks() const {
    for (const Week& week : paths_.course.weeks()) {
      for (const auto& entry : fs::directory_iterator(tree() / "labs" / week.folder)) {
        const std::string name = entry.path().filename();
        const bool claims = name.ends_with("claims_test.cpp") || name == "gpt_stage_test.cpp";
        if (claims || (!weeks_.contains(week.number) && !name.ends_with(".hpp"))) fs::remove_all(entry.path());
      }
    }
  }

  void write_hints() const {
    const fs::path file = tree() / "labs" / "course.json";
    const Json course = Json::parse(read_text(file));
    std::vector<Json> weeks;  // those that are not handed out have none
    for (const Json& week : course.at("weeks"))
      weeks.push_back(with_hints(week, weeks_.contains(week.at("number")) ? std::size_t(options_.hints) : 0));
    write_text(file, Json::object({{"weeks", Json::list(std::move(weeks))}}).dump(2) + "\n");
  }

  void write_prebuilt(const std::vector<std::string>& objects) const {
    const fs::path prebuilt = tree() / "prebuilt";
    fs::create_directories(prebuilt);
    for (const std::string& id : objects) {
      const std::string object = read_text(paths_.build / "grade" / "references" / id);
      if (!fs::exists(object)) throw Error(Verdict::usage, fmt::format("the build has no object of {}", id));
      fs::copy_file(object, prebuilt / (id + ".o"));
    }
    const fs::path tools = paths_.build / "tools";  // ./lab itself
    fs::copy_file(tools / "liblockstep_tools.a", prebuilt / "liblockstep_tools.a");
    fs::copy_file(tools / "CMakeFiles" / "lockstep_lab_command.dir" / "lab_command.cpp.o", prebuilt / "lab_command.o");
    const fs::path texts = paths_.build / "common" / "CMakeFiles" / "lockstep_texts.dir";  // a fifth of a first check
    fs::copy_file(texts / "Unity" / "unity_texts_cxx.cxx.o", prebuilt / "texts.o");
    fs::copy_file(texts / "Unity" / "unity_processes_cxx.cxx.o", prebuilt / "processes.o");
    fs::copy_file(texts / "support" / "json" / "document.cpp.o", prebuilt / "document.o");
    fs::copy_file(paths_.build / "platform.txt", prebuilt / "platform.txt");
    write_text(prebuilt / "handed_out.txt", list_handed_out(tree()));  // what ./lab check compares headers with
    write_text(tree() / "commit.txt", read_text(paths_.build / "commit.txt"));
  }

  /// Writes the handout's own README.md, and pages that link and list only what the handout has.
  void write_pages() const {
    std::vector<Week> weeks;
    for (const Week& week : paths_.course.weeks())
      if (weeks_.contains(week.number)) weeks.push_back(week);
    write_text(tree() / "AGENTS.md", handout_agents(weeks, options_.hints));
    write_text(tree() / "README.md", handout_readme(weeks, options_.hints, platform()));
    const fs::path commands = tree() / "docs" / "use" / "commands.md";
    write_text(commands, without_section(read_text(commands), kNoHandoutsCommands));
    std::string labs = read_text(tree() / "labs" / "README.md");
    for (const Week& week : paths_.course.weeks())
      if (!weeks_.contains(week.number))
        labs = without_section(labs, fmt::format("## Week {}: {}", week.number, week.title));
    write_text(tree() / "labs" / "README.md", labs);
    for (const auto& entry : fs::recursive_directory_iterator(tree())) {
      if (entry.path().extension() != ".md") continue;
      const std::string page = read_text(entry.path());
      const std::string linked = without_dead_links(
          page, [&](const std::string& target) { return fs::exists(entry.path().parent_path() / target); });
      if (linked != page) write_text(entry.path(), linked);
    }
  }

  std::string platform() const {
    const auto lines = lines_of(read_text(paths_.build / "platform.txt"));  // system, fmt, compiler, its version
    if (lines.size() != 4)
      throw Error(Verdict::usage,
                  "the build has no platform.txt, so it is unknown which systems its objects run on: configure it "
                  "again (./lab setup).");
    return fmt::format("{}, {} {} or newer (or Clang), fmt {}", lines[0], lines[2] == "GNU" ? "GCC" : lines[2],
                       lines[3], lines[1]);
  }

  /// No file of the archive has lines of an answer, wherever they come from.
  void refuse_what_tells() const {
    for (const auto& entry : fs::recursive_directory_iterator(tree())) {
      if (!entry.is_regular_file() || entry.path().parent_path().filename() == "prebuilt") continue;
      const fs::path name = fs::relative(entry.path(), tree());
      if (name == "labs/course.json" && options_.hints == 3) continue;  // nearly the answers, as was asked for
      if (const auto leak = leaks_.find(read_text(entry.path())))
        throw Error(
            Verdict::usage,
            fmt::format("{}:{} has lines of the answer to {}:\n  {}\nSay it in other words there. If it is code that "
                        "students are given, move it to solutions/given, from which they get only the object.",
                        name.string(), leak->line, leak->id, leak->words));
    }
  }

  void pack() const {
    const fs::path out = fs::absolute(options_.out);
    make_folders_of(out.string()), check_writable(out.string());
    run_or_refuse({"cmake", "-E", "tar", "cf", (scratch_.path() / "out.zip").string(), "--format=zip", kTop},
                  scratch_.path());
    fs::copy_file(scratch_.path() / "out.zip", out, fs::copy_options::overwrite_existing);
    fmt::print("{}: {} {}, {} of 3 hints, {:.1f} MiB; reference solutions can be borrowed on {}\n", options_.out,
               weeks_.size() == 1 ? "week" : "weeks", fmt::join(weeks_, ", "), options_.hints,
               static_cast<double>(fs::file_size(out)) / (1 << 20), platform());
  }

  const Paths& paths_;
  const HandoutOptions& options_;
  std::set<int> weeks_;
  std::vector<Exercise> all_;
  RunFolder scratch_;
  Leaks leaks_;
};

}  // namespace

std::string why_missing(const Paths& paths) {
  return is_handout(paths) ? "not in this handout" : "not in the suite yet";
}

void need_handed_out(const Paths& paths, const Exercise& exercise) {
  if (is_handout(paths) && !paths.has(exercise))
    throw Error(Verdict::usage, fmt::format("{} is {}", exercise.id, why_missing(paths)));
}

bool is_handout(const Paths& paths) { return fs::exists(paths.source / "prebuilt"); }

int handout(const Paths& paths, const HandoutOptions& options) {
  if (is_handout(paths) || !fs::exists(paths.source / ".git"))
    throw Error(Verdict::usage, "a handout is made from a git checkout of the whole suite.");
  if (!options.out.ends_with(".zip")) throw Error(Verdict::usage, "a handout is a .zip: ./lab handout FILE.zip");
  Handout(paths, options).make();
  return 0;
}

}  // namespace lockstep::tools
