#include "tools/lab_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error.hpp"
#include "common/support/json/results.hpp"
#include "common/support/text/columns.hpp"
#include "common/support/text/files.hpp"
#include "common/support/text/option_words.hpp"
#include "common/support/text/run_program.hpp"
#include "tools/course/scores.hpp"

namespace lockstep::tools {
namespace {

/// Commands of the script ./lab itself, which come first in `./lab help all`.
struct OfScript {
  std::string_view name, what;
};
constexpr OfScript kOfScript[] = {
    {"setup", "install what is missing"},
    {"test",
     "build everything and test the suite; --all: its own tools, too; --gpu: all labs' tests on the GPU; otherwise "
     "ctest's options, such as -R PATTERN"},
    {"report",
     "measure, and write outputs/report/index.html; --from: a folder, or your own CSV; "
     "--run DIR, --plan DIR: again what --page DIR made"},
    {"doctor", "what this machine has, and what it lacks"},
    {"update", "install a newer version of Lockstep in this folder; your answers are kept"},
    {"gpu-pack", "pack a check for a machine with a GPU and no network (docs/use/gpu.md)"},
    {"playground", "build the page of docs/playground: schedules, memory and cost in a browser"},
};

/// The commands; exactly one of them is asked for.
class CommandLine {
 public:
  CommandLine(const Paths& paths, Grader grader) : paths_(paths), grader_(std::move(grader)) {
    app_.require_subcommand(0, 1);
    app_.set_help_flag();
    add_check();
    add_grade();
    add_course();
    add_programs();
    add_internal();
  }

  /// Returns the command that is asked for. It refers to this object.
  std::function<int()> read(int argc, const char* const* argv) {
    if (argc == 1) return [this] { return status(paths_); };
    const std::string name = argv[1];
    if (name == "help" && argc > 2 && has(argv[2]) && std::string_view(argv[2]) != "profile" &&
        app_.get_subcommand(argv[2])->get_prefix_command()) {
      const char* arguments[] = {argv[0], argv[2], "--help"};  // the program behind it knows its options
      return read(3, arguments);
    }
    if (name == "help" || name == "--help" || name == "-h") {
      if (const std::string what = argc > 2 ? argv[2] : "all"; what != "all" && !is_known(what))
        throw Error(Verdict::usage, unknown(what));
      return print(help(argc > 2 ? argv[2] : ""));
    }
    if (name == "--version") return print(version());
    if (!has(name)) throw Error(Verdict::usage, unknown(name));
    if (!app_.get_subcommand(name)->get_prefix_command()) refuse_empty_words(argc, argv);
    try {
      app_.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
      return print(help(name));
    } catch (const CLI::ParseError& error) {
      const CLI::App& command = *app_.get_subcommand(name);
      std::vector<std::string> extras = app_.remaining(true);
      if (app_.get_subcommands().size() > 1) extras = {app_.get_subcommands().back()->get_name()};
      throw Error(Verdict::usage, fmt::format("lab {}: {}", name, format_parse_error(command, error, extras)));
    }
    return command_;
  }

 private:
  CLI::App* add(const char* name, const char* what, std::function<int()> run) {
    CLI::App* command = app_.add_subcommand(name, what);
    command->set_help_flag("-h,--help", "this text");
    command->callback([this, run] { command_ = run; });
    return command;
  }
  CLI::App* add_for_exercises(const char* name, const char* what, std::function<int()> run) {
    CLI::App* command = add(name, what, [this, run = std::move(run)] {
      for (const std::string& each : exercises_) check_.what += (check_.what.empty() ? "" : ",") + each;
      return run();
    });
    command->add_option(
        "exercise", exercises_,
        "weeks, exercises or a part: 21, 21-23, 21:core, 21.2 21.3, ring_all_reduce, 21.2a; nothing: all");
    return command;
  }

  void add_course_file(CLI::App* command) {
    command->add_option("--course", course_file_,
                        "a file that changes points, minutes and more (else LOCKSTEP_COURSE)");
  }
  /// The paths that a command is given, with the instructor's changes to the course.
  Paths with_changes() const {
    Paths paths = paths_;
    const char* usual = std::getenv("LOCKSTEP_COURSE");
    const std::string file = !course_file_.empty() || !usual ? course_file_ : usual;
    if (!file.empty()) paths.course.change(read_file(file), file);
    return paths;
  }

  void add_check() {
    add_for_exercises("watch", "check an answer whenever it is saved", [this] { return watch(paths_, check_); });
    CLI::App* c = add_for_exercises("check", "check your answers", [this] { return check(paths_, check_); });
    c->add_flag("--solution", check_.solution, "check the reference instead");
    c->add_flag("--mine")->description("check your answers (the default)")->excludes("--solution");
    c->add_flag("!--no-borrow", check_.borrow, "never borrow an earlier exercise from the reference");
    c->add_option("--backend", check_.backend, "sim, mpi, cuda or nccl")->capture_default_str();
    c->add_option("--ranks", check_.ranks, "only this number of ranks")->check(whole_number(1, 1 << 20));
    c->add_option("--size", check_.size, "only this size")->check(whole_number(0, 1 << 30));
    c->add_option_function<std::string>("--only,--part", [](const std::string&) {
       throw Error(Verdict::usage, "--only and --part are no options here: a part is ./lab check 21.2a");
     })->group("");
    c->add_option("--perturb", check_.perturb, "run queued work early or late, depending on this seed");
    c->add_option("--seed", check_.seed, "draw inputs and sizes from this seed, as grading did");
    c->add_flag("--trace", check_.trace, "record the timeline and draw it");
    c->add_flag("--debug", check_.debug, "run in gdb and stop where an error is thrown");
    c->add_option("--timeout", check_.timeout_seconds, "seconds for an exercise's tests (60)")
        ->check(whole_number(1, 86'400));
    c->add_option("--json", check_.json, "write the verdicts to this file");
    c->add_flag("--time", check_.time, "keep the time from now until the exercise passes, for ./lab list")
        ->excludes("--solution");
    c->add_flag("--again", check_.again, "run the tests even if nothing has changed since they ran");
  }

  void add_grade() {
    CLI::App* c = add("grade", "grade submissions, each isolated: ./lab grade SUBMISSION… --only 21 --out results.json",
                      [this] { return grader_.grade(with_changes(), grade_); });
    c->add_option("SUBMISSION", grade_.submissions,
                  "folders with lab files or one archive, or a .zip, .tar or .tar.gz of each")
        ->required();
    c->add_option("--only", grade_.what,
                  "weeks or exercises: 21, 21-23, 21:core (without its extras), core, 21.2,21.5, or one part: 21.2a");
    c->add_option(
        "--out", grade_.out,
        "NAME.json: one submission's results, for Gradescope (default: results.json); any other name: a folder "
        "for each submission's results and the summary (default for several: grades)");
    c->add_option("--junit", grade_.junit, "also write JUnit XML to this file");
    c->add_option("--visibility", grade_.visibility, "visibility of the tests, in Gradescope's terms")
        ->check(one_of({"visible", "hidden", "after_due_date", "after_published"}))
        ->capture_default_str();
    c->add_option("--backend", grade_.backend, "mpi, cuda or nccl: what passes in the simulator must pass there too")
        ->capture_default_str();
    c->add_option("--timeout", grade_.timeout_seconds, "seconds for the tests of one part")
        ->check(whole_number(1, 3600))
        ->capture_default_str();
    c->add_option("--total", grade_.total_seconds, "seconds for a whole submission; what has not begun is not judged")
        ->check(whole_number(1, 86400))
        ->capture_default_str();
    c->add_option("-j,--jobs", grade_.jobs, "exercises graded in parallel")
        ->check(whole_number(1, 256))
        ->capture_default_str();
    c->add_flag("--resume", grade_.resume, "skip what this commit has already graded and what has not changed since");
    c->add_option("--seed", grade_.seed,
                  "draw inputs and sizes as an earlier grading did (default: a new, secret seed)");
    c->add_flag("--hide-seed", grade_.hide_seed, "do not print the seed, where students see what is printed");
    c->add_flag("!--without-language", grade_.check_language)->group("");
    c->add_flag("!--without-look", grade_.look_at_objects)->group("");
    c->add_option("--tests", grade_.tests, "a folder of hidden tests: weekNN_topic/NAME_hidden_test.cpp");
    add_course_file(c);
    c = add("class", "a class's results on one page: ./lab class grades",
            [this] { return grader_.class_results(with_changes(), class_); });
    c->add_option("FOLDER", class_.folder, "where ./lab grade wrote the results of several submissions")->required();
    c->add_option("--out", class_.out,
                  "the page, with a CSV of the same name next to it (default: class.html in the folder)");
    add_course_file(c);
    c->add_option("--deadline", class_.deadline, "such as 2026-11-20T23:59+01:00: later submissions are marked");
    c->add_option("--times", class_.times, "a CSV with the columns submission and time");
    c->add_option("--extensions", class_.extensions, "a CSV with the columns submission and days: later deadlines");
    c->add_option("--penalty", class_.penalty, "percent of the points lost for each day late that has begun")
        ->check(CLI::Range(0.0, 100.0));
    c->add_option("--grace-days", class_.grace_days, "days late in a term that cost a student no points")
        ->check(whole_number(0, 365));
    c->add_option("--spent", class_.spent, "class.csv of earlier weeks: grace days that were used");
    c->add_option("--lms", class_.lms,
                  "Canvas's exported gradebook or Moodle's grading worksheet: the same with the points, to import");
    c->add_option("--column", class_.column, "the assignment's column in it (Moodle: Grade)");
    c->add_option("--feedback", class_.feedback, "write a page for each student into this folder");
    c = add("handout", "an archive for students, without the reference's text: ./lab handout FILE.zip --weeks 21-23",
            [this] { return handout(paths_, handout_); });
    c->add_option("FILE.zip", handout_.out, "the archive to write")->required();
    c->add_option("--weeks", handout_.weeks, "21-23, or 21,22; earlier ones are not added")->required();
    c->add_option("--hints", handout_.hints, "levels of hints to include; the third is nearly the answer")
        ->check(whole_number(0, 3))
        ->capture_default_str();
  }

  void add_course() {
    add_course_file(add_for_exercises("list", "exercises, minutes, points and your verdicts",
                                      [this] { return list(with_changes(), check_.what); }));
    add_for_exercises("predict", "predict some numbers, then measure them: ./lab predict 21.2",
                      [this] { return predict(paths_, named("predict")); });
    add_for_exercises("reset", "restore an answer's skeleton; yours is kept in outputs/answers", [this] {
      return reset(paths_, named("reset"), hard_);
    })->add_flag("--hard", hard_, "leave only the interface, where an exercise has such a skeleton (22.4)");
    add_for_exercises("reveal", "print the reference's answer; ./lab list shows that you did",
                      [this] { return reveal(paths_, named("reveal")); });
    add_for_exercises("borrow", "use the reference's answer in place of yours; ./lab list shows that you do", [this] {
      return borrow(paths_, named("borrow"), back_);
    })->add_flag("--back", back_, "use your own again");
    add("scores", "your scores in the open tasks; for a class: ./lab scores grades", [this] {
      return folder_.empty() ? print_scores(paths_) : print_ranking(folder_);
    })->add_option("folder", folder_, "the results that ./lab grade wrote");
    CLI::App* h =
        add_for_exercises("hint", "a hint for an exercise", [this] { return hint(paths_, check_.what, level_); });
    h->add_option("--level", level_, "1 to 3, each more explicit")->capture_default_str();
    CLI::App* s = add_for_exercises("skeletons", "write missing skeletons into labs/",
                                    [this] { return skeletons(paths_, check_.what, overwrite_, compare_); });
    s->add_flag("--overwrite", overwrite_, "even where that overwrites an answer");
    s->add_flag("--compare", compare_, "write nothing; fail if labs/ differs");
    s = add_for_exercises("mutants", "plant mistakes in the reference, each of which the tests must find",
                          [this] { return mutants(paths_, check_.what, points_); });
    s->add_flag("--points", points_, "check that each also costs points");
  }

  void add_programs() {
    // Options of the program behind it are not ours to parse.
    add_forward("bench", "run a benchmark: ./lab bench all_reduce …", [this] { return bench(paths_, rest_); });
    add_forward("calibrate",
                "measure this computer's links, memory and matrix products, for the benchmarks' predictions",
                [this] { return calibrate(paths_, rest_); });
    add_program("memory", "GPU memory by ZeRO stage: ./lab memory --params 7e9 --ranks 8 …");
    add_program("pipeline", "a pipeline's chart and bubble: ./lab pipeline --schedule 1f1b …");
    add_program(
        "plan",
        "how to train a model on a cluster: ./lab plan --model gpt3-175b --cluster dgx-a100x128 …; --page DIR: a "
        "page to decide with");
    add_forward("validate", "predictions for published runs and curves, and their errors", [this] {
      rest_.insert(rest_.begin(), "--validate");
      return forward(paths_, target_of("plan"), rest_);
    });
    add_forward("flops", "FLOP and days of a training run: ./lab flops --model gpt3-175b …", [this] {
      rest_.insert(rest_.begin(), "--flops");
      return forward(paths_, target_of("plan"), rest_);
    });
    add_program("train",
                "train the model: ./lab train --backend mpi --dp 2 --tp 2 --pp 2 …; --page DIR: the run's page");
    add_forward("volume", "bytes that a rank sends in a step, along each axis: ./lab volume --dp 2 --tp 2 …", [this] {
      rest_.insert(rest_.begin(), "--volume");
      return forward(paths_, target_of("train"), rest_);
    });
    add_forward("export", "export a checkpoint's weights for other programs: ./lab export CHECKPOINT OUT.safetensors",
                [this] {
                  rest_.insert(rest_.begin(), "--export");
                  return forward(paths_, target_of("train"), rest_);
                });
    add_forward("why", "what limits a traced run: ./lab why FILE, or ./lab why train …",
                [this] { return trace_tool(paths_, "why", rest_); });
    add_forward("view", "a page that animates a run: ./lab view check 21.2 --ranks 4 --size 8, view train …, view FILE",
                [this] { return view(paths_, rest_, check_into()); });
    add_forward("diff", "compare two traces, operation by operation: ./lab diff A B",
                [this] { return trace_tool(paths_, "diff", rest_); });
    add_forward("drill", "a run that went wrong: find the fault from its output and trace: ./lab drill 21",
                [this] { return drill(paths_, rest_); });
    add_forward("card", "a design card: which strategy for this model on this cluster? ./lab card 1",
                [this] { return card(paths_, rest_); });
    add_program("scale", "strong or weak scaling, and what limits it: ./lab scale --strong --ranks 1,2,4 …");
    add_forward("profile", "run bench … or train … under Nsight Systems, one report per rank",
                [this] { return profile(paths_, rest_); });
  }
  /// ./lab check, whose traces come into a folder.
  CheckInto check_into() const {
    return [&paths = paths_](const std::string& folder, const std::vector<std::string>& arguments) {
      CommandLine line(paths, {});
      line.check_.trace_folder = folder;
      std::vector<const char*> words{"lab", "check"};
      for (const std::string& argument : arguments) words.push_back(argument.c_str());
      return line.read(static_cast<int>(words.size()), words.data())();
    };
  }
  void add_program(const char* name, const char* what) {
    add_forward(name, what, [this, name] { return forward(paths_, target_of(name), rest_); });
  }
  void add_forward(const char* name, const char* what, std::function<int()> run) {
    CLI::App* command = app_.add_subcommand(name, what);
    command->prefix_command();
    command->set_help_flag();
    command->callback([this, command, run] {
      rest_ = command->remaining();
      command_ = run;
    });
  }

  void add_internal() {
    CLI::App* e = add("expect-not-implemented", "", [this] { return expect_not_implemented(paths_, program_); });
    e->add_option("program", program_)->required();
    e->group("");
    CLI::App* l = add("link-mine", "", [this] { return link_mine(paths_, programs_, check_.borrow); });
    l->add_option("program", programs_)->required();
    l->add_flag("!--no-borrow", check_.borrow);
    l->group("");
    CLI::App* c = add("is-current", "", [this] { return is_current(paths_, program_) ? 0 : 1; });
    c->add_option("target", program_)->required();
    c->group("");
    add("mine-summary", "", [this] { return mine_summary(paths_); })->group("");
  }

  /// The name that was given; a command that changes something needs one.
  const std::string& named(const std::string& command) const {
    if (!check_.what.empty()) return check_.what;
    throw lockstep::Error(lockstep::Verdict::usage,
                          fmt::format("which exercise? For example: ./lab {} {}", command, paths_.example()));
  }

  bool has(const std::string& name) {
    auto commands = app_.get_subcommands([&](const CLI::App* command) { return command->get_name() == name; });
    return !commands.empty();
  }

  std::vector<std::string> known() {
    // The script's own, and below all others.
    std::vector<std::string> known{"help"};
    for (const OfScript& command : kOfScript) known.emplace_back(command.name);
    for (const CLI::App* command : app_.get_subcommands({})) {
      if (!command->get_group().empty()) known.push_back(command->get_name());
    }
    return known;
  }
  bool is_known(const std::string& name) {
    const std::vector<std::string> names = known();
    return std::find(names.begin(), names.end(), name) != names.end();
  }
  std::string unknown(const std::string& name) {
    if (name == "handin" || name == "hand-in" || name == "submit")
      return fmt::format(
          "there is no command '{}': a handout's README.md has one that packs your answers, under Handing in.", name);
    const std::vector<std::string> three = nearest_of(name, known(), 3);
    const char* words = near(name, three[0]) ? "unknown command '{}': did you mean '{}', '{}' or '{}'? {}"
                                             : "unknown command '{}'. The nearest are '{}', '{}' and '{}'. {}";
    return fmt::format(fmt::runtime(words), name, three[0], three[1], three[2], "./lab help all lists every command.");
  }

  /// A script whose variable is not set passes an empty word: for exercises it would mean all of them.
  static void refuse_empty_words(int argc, const char* const* argv) {
    for (int i = 2; i < argc; ++i) {
      const std::string word = argv[i], before = argv[i - 1];
      const std::string option = word.empty() && before.starts_with("-")        ? before
                                 : word.starts_with("-") && word.ends_with("=") ? word.substr(0, word.size() - 1)
                                                                                : "";
      if (!option.empty())
        throw Error(Verdict::usage, fmt::format("lab {}: {} needs a value, not ''", argv[1], option));
      if (word.empty())
        throw Error(Verdict::usage,
                    fmt::format("lab {}: argument {} is empty: is a variable not set?", argv[1], i - 1));
    }
  }

  /// Lockstep's version and commit, as results name them.
  static std::string version() {
    const Context context = Context::here();
    return fmt::format("Lockstep {} ({})\n", context.versions.front().second, context.commit);
  }

  static std::function<int()> print(std::string text) {
    return [text = std::move(text)] {
      fmt::print("{}", text);
      return 0;
    };
  }

  std::string help(const std::string& name) {
    if (has(name)) return app_.get_subcommand(name)->help("./lab");
    for (const OfScript& command : kOfScript)
      if (command.name == name) return fmt::format("./lab {}: {}\n", name, command.what);
    if (name != "all")
      return fmt::format(
          "./lab               where you are, and what comes next\n"
          "./lab check {0}    check your answer; watch {0} does so whenever you save\n"
          "./lab hint {0}     a hint\n"
          "./lab view check {0} --ranks 4 --size 8   watch it run, in a web page\n"
          "./lab list          the course\n"
          "./lab drill         find out why a run went wrong\n"
          "./lab train --mine  train the model with your code\n"
          "./lab report        measure, and write outputs/report/index.html\n"
          "./lab help all lists every command, ./lab help COMMAND its options, ./lab --version the version.\n",
          paths_.example());
    std::string text = "./lab COMMAND …; ./lab help COMMAND lists its options.\n";
    const auto add = [&](const std::string& command, const std::string& what) {
      std::string label = command;
      for (const std::string& line : wrapped(what, terminal_columns(STDOUT_FILENO) - 13))
        text += fmt::format("  {:<10} {}\n", std::exchange(label, ""), line);
    };
    for (const OfScript& command : kOfScript) add(std::string(command.name), std::string(command.what));
    for (const CLI::App* command : app_.get_subcommands({}))
      if (!command->get_group().empty()) add(command->get_name(), command->get_description());
    return text;
  }

  const Paths& paths_;
  Grader grader_;
  CLI::App app_{"Lockstep"};
  std::function<int()> command_;
  CheckOptions check_;
  std::vector<std::string> exercises_;
  GradeOptions grade_;
  std::string course_file_;
  ClassOptions class_;
  HandoutOptions handout_;
  int level_ = 1;
  bool back_ = false, hard_ = false, overwrite_ = false, points_ = false, compare_ = false;
  std::string program_, folder_;
  std::vector<std::string> programs_;
  std::vector<std::string> rest_;
};

}  // namespace

std::function<int()> read_command(const Paths& paths, int argc, const char* const* argv, const Grader& grader) {
  auto line = std::make_shared<CommandLine>(paths, grader);
  return [line, command = line->read(argc, argv)] { return command(); };
}

int run_lab(Paths paths, int argc, const char* const* argv, const Grader& grader) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // who reads it through a pipe sees each line when it is printed
  return run_program("", [&] {
    paths.course = Course::read(paths.source / "labs" / "course.json");
    return read_command(paths, argc, argv, grader)();
  });
}

}  // namespace lockstep::tools
