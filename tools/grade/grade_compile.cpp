#include "tools/grade/grade_compile.hpp"

#include <fmt/format.h>

#include <cmath>
#include <csignal>

#include "common/error.hpp"
#include "tools/course/answer_language.hpp"
#include "tools/course/compiler_error.hpp"
#include "tools/grade/grade_isolate.hpp"
#include "tools/grade/grade_object.hpp"
#include "tools/grade/grade_run.hpp"

namespace lockstep::tools {
namespace {

namespace fs = std::filesystem;

const char* const kRefusedAnswer = "REFUSED";
constexpr std::uint64_t kMostOfAnObject = std::uint64_t{8} << 20, kMostPreprocessed = std::uint64_t{64} << 20;

/// The headers that an answer may include, each by its name: what else lies beside them is not to be read.
std::vector<fs::path> headers_for_answers(const Paths& paths) {
  std::vector<fs::path> headers{LOCKSTEP_LIBRARY_HEADERS};
  for (const char* top : {"common", "labs"})
    for (const auto& entry : fs::recursive_directory_iterator(paths.source / top))
      if (entry.is_regular_file() && may_include(paths, fs::weakly_canonical(entry.path())))
        headers.push_back(entry.path());
  return headers;
}

/// One answer that is being compiled.
class Compilation {
 public:
  Compilation(const Paths& paths, const Exercise& exercise, const fs::path& scratch,
              const std::vector<fs::path>& headers, std::uint64_t seconds)
      : paths_(paths), exercise_(exercise), scratch_(scratch), headers_(headers), seconds_(seconds) {
    source_ = scratch / exercise.folder / (exercise.name + ".cpp");
    flags_ = lines_of(read_text(paths.build / "grade" / "compile" / "CXX" / exercise.id));
    std::erase(flags_, "");
    if (flags_.empty()) throw Error(Verdict::usage, "the build does not say how answers are compiled");
  }

  fs::path object() const { return scratch_ / "answer.o"; }
  const Declared& declared() const { return declared_; }

  Compiled to_object(const std::string& text, Look how) {
    const bool look = how != Look::nothing, language = how == Look::everything;
    write_text(source_, text);
    if (const auto outside = language ? outside_the_language(text) : std::nullopt)
      return {kRefusedAnswer, has_moved(*outside)
                                  ? fmt::format("line {} {}, which is not in this version: if it is an "
                                                "answer to an earlier one, tools/course/move_answers.sh "
                                                "updates it",
                                                outside->line, outside->what)
                                  : outside->sentence()};
    const fs::path expanded = scratch_ / "answer.ii", needs = scratch_ / "answer.d";
    std::vector<std::string> preprocess{"-E", "-MD", "-MF", needs.string(), "-o", expanded.string(), source_.string()};
    if (language) preprocess.emplace_back("-dD");
    ConfinedEnd end = run(preprocess, headers_);
    if (std::string why = look ? forbidden_include(end.output) : ""; !why.empty()) return {kRefusedAnswer, why};
    if (end.exit_code != 0) return failed(end);
    if (std::string why = look ? read_refused(needs, expanded) : ""; !why.empty()) return {kRefusedAnswer, why};
    if (const auto outside = language ? outside_once_expanded(expanded) : std::nullopt)
      return {kRefusedAnswer, outside->sentence()};
    if (look) declared_ = words_from(read_text(expanded), paths_.source.string());
    end = run({"-c", "-o", object().string(), expanded.string()}, look ? std::vector<fs::path>{} : headers_);
    if (end.output.find("Assembler messages:") != std::string::npos)
      return {kRefusedAnswer, "a name in it contains assembler text, which no answer needs"};
    return end.exit_code == 0 ? Compiled{} : failed(end);
  }

 private:
  /// It includes a header of the suite's that is not there, as an answer to an earlier version does.
  bool has_moved(const Outside& outside) const {
    const std::string includes = "includes ", ours = "common/";
    if (!outside.what.starts_with(includes + ours) || outside.what.find("..") != std::string::npos) return false;
    return !fs::exists(paths_.source / outside.what.substr(includes.size()));
  }

  ConfinedEnd run(const std::vector<std::string>& arguments, const std::vector<fs::path>& may_read) const {
    Confined command{.arguments = flags_,
                     .folder = scratch_,
                     .limits = {.wall_seconds = 3.0 * static_cast<double>(seconds_),
                                .cpu_seconds = seconds_,
                                .memory_bytes = std::uint64_t{3} << 30,
                                .file_bytes = kMostPreprocessed},
                     .rules = Rules::compiler,
                     .may_read = may_read,
                     .locale = "C",
                     .kept_bytes = 256 * 1024};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    return run_confined(command);
  }

  /// Only the compiler's first sentence is told: what it quotes besides could be another file's text.
  Compiled failed(const ConfinedEnd& end) const {
    if (end.output.find("No space left on device") != std::string::npos)  // which is not the student's mistake
      throw Error(Verdict::usage, "the disk for temporary files is full: free some space, or set TMPDIR");
    const std::string verdict(to_string(Verdict::does_not_compile));
    const int signal = end.exit_code - 128;  // Clang dies of it; GCC's driver says what its compiler died of
    if (end.timed_out || signal == SIGXCPU || signal == SIGKILL ||
        end.output.find("CPU time limit") != std::string::npos)
      return {verdict, "its compilation does not finish in time"};
    for (const char* words : {"out of memory", "memory exhausted"})
      if (end.output.find(words) != std::string::npos) return {verdict, "its compilation takes more than 3 GiB"};
    if (signal == SIGXFSZ || end.output.find("File size limit") != std::string::npos)
      return {verdict, "its object file becomes too large"};
    if (end.printed_too_much) return {verdict, "its compilation prints too much"};
    if (end.wrote_too_much) return {verdict, "its compilation writes too much"};
    return {verdict, fmt::format("{} does not compile: {}", exercise_.id, explain_alone(end.output, source_.string()))};
  }

  /// "a.cpp:3:10: fatal error: /etc/passwd: Permission denied": it is there, and not for answers. Clang says "cannot
  /// open file '/etc/passwd': Permission denied".
  std::string forbidden_include(const std::string& log) const {
    const std::string begin = "fatal error: ", end = ": Permission denied";
    const auto at = log.find(begin), to = log.find(end, at);
    if (at == log.npos || to == log.npos || log.find('\n', at) < to) return "";
    std::string file = log.substr(at + begin.size(), to - at - begin.size());
    if (const std::string before = "cannot open file '"; file.starts_with(before) && file.ends_with("'"))
      file = file.substr(before.size(), file.size() - before.size() - 1);
    return "it includes " + told_file(paths_, file, read_text(source_)) + ", which is no header for answers";
  }

  /// Leaves in the file what is to be compiled.
  std::optional<Outside> outside_once_expanded(const fs::path& expanded) const {
    std::string text = read_text(expanded);
    const std::optional<Outside> macro = take_out_macros(text, source_.string());
    write_text(expanded, text);
    return macro ? macro : outside_once_preprocessed(text, source_.string());
  }

  std::string read_refused(const fs::path& needs, const fs::path& expanded) const {
    if (fs::file_size(expanded) >= kMostPreprocessed) return "its text becomes too long once macros are expanded";
    return include_refused(paths_, needs, source_);
  }

  const Paths& paths_;
  const Exercise& exercise_;
  const fs::path& scratch_;
  const std::vector<fs::path>& headers_;
  std::uint64_t seconds_;
  fs::path source_;
  std::vector<std::string> flags_;
  Declared declared_;
};

}  // namespace

AnswerCompiler::AnswerCompiler(const Paths& paths, Look look, double seconds)
    : paths_(paths),
      look_(look),
      seconds_(static_cast<std::uint64_t>(std::ceil(seconds))),
      headers_(headers_for_answers(paths)) {}

fs::path AnswerCompiler::object(const Exercise& exercise) const {
  return paths_.build / "grade" / "objects" / (exercise.id + ".o");
}

Compiled AnswerCompiler::compile(const Exercise& exercise, const std::string& text, const fs::path& scratch) const {
  fs::remove(object(exercise));
  Compilation compilation(paths_, exercise, scratch, headers_, seconds_);
  const Compiled compiled = compilation.to_object(text, look_);
  if (!compiled.verdict.empty()) return compiled;
  const fs::path made = compilation.object();
  if (!fs::is_regular_file(fs::symlink_status(made)) || fs::file_size(made) > kMostOfAnObject)
    return {kRefusedAnswer, fmt::format("its object has more than {} bytes", kMostOfAnObject)};
  if (std::string why = look_ != Look::nothing ? object_refused(made, compilation.declared(), text) : ""; !why.empty())
    return {kRefusedAnswer, why};
  const Isolated isolated = isolate(made, offered_by(read_text(paths_.build / "grade" / "references" / exercise.id)));
  if (!isolated.missing.empty())
    return {std::string(to_string(Verdict::does_not_compile)),
            fmt::format("{} does not compile: {}", exercise.id,
                        explain(":0: error: missing definition of " + isolated.missing, exercise.name + ".cpp"))};
  if (!isolated.refused.empty()) return {kRefusedAnswer, isolated.refused};
  fs::create_directories(object(exercise).parent_path());
  fs::copy_file(isolated.object, object(exercise));
  return {};
}

}  // namespace lockstep::tools
