// ./lab handout: the suite for students, without the reference's text. The reference's objects go along, compiled here,
// so that an exercise can borrow what it needs; cmake/LockstepHandout.cmake says where they fit.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "common/error.hpp"
#include "common/support/json/document.hpp"
#include "common/support/text/files.hpp"
#include "tools/course/commands.hpp"
#include "tools/course/process.hpp"
#include "tools/course/skeleton.hpp"

namespace lockstep::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTop = "lockstep";  // the folder in the archive

// What tells of answers, or is of no use without them.
constexpr const char* kNotForStudents[] = {".ci",
                                           ".github",
                                           "CONTRIBUTING.md",
                                           "docs/adding-a-lab.md",
                                           "docs/results",
                                           "docs/instructors.md",
                                           "docs/hidden-tests",
                                           "examples",
                                           "tools/alternatives",
                                           "tools/tests",
                                           "tools/scale",
                                           "tools/fuzz",
                                           "launch/gradescope",
                                           "launch/tests",
                                           "launch/classroom",
                                           "common/runtime/tests",
                                           "common/devices/tests",
                                           "common/backends/tests",
                                           "common/gpt/tests",
                                           "common/testing/tests"};

/// "21-23", "21,22" or "21".
std::set<int> weeks_of(const std::string& text, const Course& course) {
  std::set<int> weeks;
  const auto refuse = [&] {
    throw Error(Verdict::usage, fmt::format("--weeks needs 21-23 or 21,22, not '{}'.", text));
  };
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::string word = text.substr(begin, text.find(',', begin) - begin);
    int first = 0, last = 0;
    const char* end = word.data() + word.size();
    auto read = std::from_chars(word.data(), end, first);
    last = first;
    if (read.ec == std::errc{} && read.ptr != end && *read.ptr == '-') read = std::from_chars(read.ptr + 1, end, last);
    if (read.ec != std::errc{} || read.ptr != end || first > last || last - first > 99) refuse();
    for (int week = first; week <= last; ++week) weeks.insert(week);
    begin += word.size() + 1;
  }
  for (const int week : weeks)
    if (std::none_of(course.weeks().begin(), course.weeks().end(), [&](const Week& w) { return w.number == week; }))
      throw Error(Verdict::usage, fmt::format("the course has no week {}.", week));
  return weeks;
}

void run_or_refuse(std::vector<std::string> arguments, const fs::path& folder) {
  std::string said;
  Command command{.arguments = std::move(arguments), .folder = folder};
  command.on_line = [&](std::string_view line) { said.append(line).append("\n"); };
  if (!run_command(command).ok())
    throw Error(Verdict::usage, fmt::format("{} failed:\n{}", command.arguments[0], said));
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

/// Lines of code that say enough to be known again, without blanks before them.
std::set<std::string> telling_lines(const std::string& text) {
  std::set<std::string> all;
  for (std::size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    line.erase(0, std::min(line.find_first_not_of(' '), line.size()));
    if (line.size() >= 40 && !line.starts_with("//") && !line.starts_with("#include")) all.insert(line);
  }
  return all;
}

/// The archive's tree, in a folder of its own until it is packed.
class Handout {
 public:
  Handout(const Paths& paths, const HandoutOptions& options)
      : paths_(paths), options_(options), weeks_(weeks_of(options.weeks, paths.course)), scratch_(paths) {}

  void make() {
    const std::vector<Exercise> all = exercises();
    std::vector<std::string> targets;
    for (const Exercise& e : all) targets.push_back("ref." + e.id);
    need_built(paths_, targets, "the reference");
    check_out();
    for (const char* path : kNotForStudents) fs::remove_all(tree() / path);
    for (const Week& week : paths_.course.weeks()) fs::remove_all(tree() / "tools" / "mutants" / week.folder);
    for (const Exercise& e : all) strip(e);
    remove_other_weeks();
    write_hints();
    write_prebuilt(all);
    refuse_what_tells();
    pack();
  }

 private:
  fs::path tree() const { return scratch_.path() / kTop; }

  std::vector<Exercise> exercises() const {
    std::vector<Exercise> all = paths_.course.select("").exercises;
    std::erase_if(all, [&](const Exercise& e) { return !paths_.has(e); });
    return all;
  }

  void check_out() const {
    const fs::path tar = scratch_.path() / "tree.tar";
    run_or_refuse({"git", "archive", "--format=tar", fmt::format("--prefix={}/", kTop), "-o", tar.string(), "HEAD"},
                  paths_.source);
    run_or_refuse({"cmake", "-E", "tar", "xf", tar.string()}, scratch_.path());
  }

  /// The solutions become what skeletons and stubs are made from, and keep no answer.
  void strip(const Exercise& e) {
    for (const fs::path& from : {paths_.solution(e), paths_.hard_solution(e)}) {
      if (!fs::exists(from)) continue;
      const fs::path to = tree() / fs::relative(from, paths_.source);
      const std::string committed = read_text(to), stripped = without_answers(committed, to.string());
      if (committed != read_text(from))
        throw Error(Verdict::usage,
                    fmt::format("{} differs from its commit; a hand-out contains only what is committed.",
                                fs::relative(from, paths_.source).string()));
      const std::string start = skeleton(committed, to.string());
      if (skeleton(stripped, to.string()) != start)
        throw Error(Verdict::usage, fmt::format("{}: its skeleton cannot be made without its answers", from.string()));
      write_text(to, stripped);
      if (from == paths_.solution(e))
        for (const char* place : {"labs", "prebuilt/skeletons"})  // the second is what ./lab update compares with
          write_text(tree() / place / e.folder / (e.name + ".cpp"), start);
      given_.merge(telling_lines(start));
      if (from == paths_.solution(e)) telling_.merge(telling_lines(committed));
    }
  }

  /// Of a week that is not handed out: its interfaces stay, which the trainer is compiled with.
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
    write_text(file, with_hints(course, static_cast<std::size_t>(options_.hints)).dump(2) + "\n");
  }

  void write_prebuilt(const std::vector<Exercise>& all) const {
    const fs::path prebuilt = tree() / "prebuilt";
    fs::create_directories(prebuilt);
    for (const Exercise& e : all) {
      const std::string object = read_text(paths_.build / "grade" / "references" / e.id);
      if (!fs::exists(object)) throw Error(Verdict::usage, fmt::format("the build has no object of {}", e.id));
      fs::copy_file(object, prebuilt / (e.id + ".o"));
    }
    const fs::path tools = paths_.build / "tools";  // ./lab itself
    fs::copy_file(tools / "liblockstep_tools.a", prebuilt / "liblockstep_tools.a");
    fs::copy_file(tools / "CMakeFiles" / "lockstep_lab_command.dir" / "lab_command.cpp.o", prebuilt / "lab_command.o");
    const fs::path texts = paths_.build / "common" / "CMakeFiles" / "lockstep_texts.dir";  // a fifth of a first check
    fs::copy_file(texts / "Unity" / "unity_texts_cxx.cxx.o", prebuilt / "texts.o");
    fs::copy_file(texts / "Unity" / "unity_processes_cxx.cxx.o", prebuilt / "processes.o");
    fs::copy_file(texts / "support" / "json" / "document.cpp.o", prebuilt / "document.o");
    fs::copy_file(paths_.build / "platform.txt", prebuilt / "platform.txt");
    write_text(tree() / "commit.txt", read_text(paths_.build / "commit.txt"));
    write_text(
        tree() / "HANDOUT.md",
        fmt::format("# Hand-out of weeks {}\n\n"
                    "`./lab check 21.0` begins; README.md says more. Hints: {} of 3 levels.\n\n"
                    "`prebuilt/` has the reference's answers, compiled, for exercises that borrow them and for "
                    "`./lab train`. They fit {}. Elsewhere the build says so when it is configured: then nothing "
                    "can be borrowed, and an exercise that depends on others needs your own answers to them.\n\n"
                    "Not in a hand-out: the text of the answers (`./lab reveal`), planted mistakes (`./lab "
                    "mutants`), the suite's own tests (`./lab test`), and its history.\n",
                    options_.weeks, options_.hints, platform()));
  }

  std::string platform() const {
    std::string words = read_text(paths_.build / "platform.txt");  // system, fmt, compiler, its version
    std::vector<std::string> lines;
    for (std::size_t begin = 0, end; (end = words.find('\n', begin)) != words.npos; begin = end + 1)
      lines.push_back(words.substr(begin, end - begin));
    if (lines.size() != 4) throw Error(Verdict::usage, "the build does not say what its objects fit");
    return fmt::format("{}, {} {} or newer (or Clang), fmt {}", lines[0], lines[2], lines[3], lines[1]);
  }

  /// Nothing in the archive has lines of an answer, wherever they come from; but for what another skeleton gives.
  void refuse_what_tells() {
    for (const std::string& given : given_) telling_.erase(given);
    for (const auto& entry : fs::recursive_directory_iterator(tree())) {
      if (!entry.is_regular_file() || entry.path().parent_path().filename() == "prebuilt") continue;
      const fs::path name = fs::relative(entry.path(), tree());
      if (name == "labs/course.json" && options_.hints == 3) continue;  // nearly the answers, as was asked for
      const std::string text = read_text(entry.path());
      std::vector<std::string> found;
      for (const std::string& line : telling_)
        if (text.find(line) != text.npos) found.push_back(line);
      if (found.size() > 1)  // one may be chance
        throw Error(Verdict::usage,
                    fmt::format("{} has lines of an answer:\n{}\n{}", name.string(), found[0], found[1]));
    }
  }

  void pack() const {
    const fs::path out = fs::absolute(options_.out);
    make_folders_of(out.string()), check_writable(out.string());
    run_or_refuse({"cmake", "-E", "tar", "cf", (scratch_.path() / "out.zip").string(), "--format=zip", kTop},
                  scratch_.path());
    fs::copy_file(scratch_.path() / "out.zip", out, fs::copy_options::overwrite_existing);
    fmt::print("{}: weeks {}, {} of 3 hints, {:.1f} MiB; what it lets borrow fits {}\n", options_.out, options_.weeks,
               options_.hints, static_cast<double>(fs::file_size(out)) / (1 << 20), platform());
  }

  const Paths& paths_;
  const HandoutOptions& options_;
  std::set<int> weeks_;
  RunFolder scratch_;
  std::set<std::string> telling_, given_;  // lines of solutions, of skeletons
};

}  // namespace

bool is_handout(const Paths& paths) { return fs::exists(paths.source / "prebuilt"); }

int handout(const Paths& paths, const HandoutOptions& options) {
  if (is_handout(paths) || !fs::exists(paths.source / ".git"))
    throw Error(Verdict::usage, "a hand-out is made from a git checkout of the whole suite.");
  if (!options.out.ends_with(".zip")) throw Error(Verdict::usage, "a hand-out is a .zip: ./lab handout OUT.zip");
  Handout(paths, options).make();
  return 0;
}

}  // namespace lockstep::tools
