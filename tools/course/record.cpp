#include "tools/course/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "common/support/text/fnv.hpp"
#include "tools/course/skeleton.hpp"

namespace lockstep::tools {
namespace {

namespace fs = std::filesystem;

/// Hash of several texts, one after the other.
class Hash {
 public:
  void add(std::string_view text) {
    hash_.add(text);
    hash_.add('\0');  // where one ends
  }
  std::uint64_t value() const { return hash_.value(); }

 private:
  Fnv1a hash_;
};

std::string hexadecimal(std::uint64_t value) { return fmt::format("{:016x}", value); }

std::string fingerprint(std::string_view text) {
  Hash hash;
  hash.add(text);
  return hexadecimal(hash.value());
}

/// The regular files below `folder`, in an order of their own.
std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& entry : fs::recursive_directory_iterator(folder, none))
    if (entry.is_regular_file(none)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

/// Options that everything is compiled with, as CMake keeps them.
std::string compiler_options(const Paths& paths) {
  std::string options;
  std::istringstream cache(read_text(paths.build / "CMakeCache.txt"));
  for (std::string line; std::getline(cache, line);)
    if (line.starts_with("CMAKE_CXX_") || line.starts_with("CMAKE_BUILD_TYPE") || line.starts_with("LOCKSTEP_"))
      options += line + "\n";
  return options;
}

fs::path record_file(const Paths& paths, const Exercise& exercise) {
  return paths.mine() / "verdicts" / (exercise.id + ".json");
}

// Rows of their own, next to the verdict: fingerprints of everything it depends on, of the answer alone, and of the
// program that ran; and whether that printed anything. The parts' rows come last.
constexpr const char* kInputs = "inputs";
constexpr const char* kAnswer = "answer";
constexpr const char* kProgram = "program";
constexpr const char* kObject = "object";
constexpr const char* kPrinted = "printed";

/// The row of that id; empty where there is none.
std::string row_of(const std::vector<Judgement>& rows, const char* id) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const Judgement& each) { return each.id == id; });
  return row == rows.end() ? "" : row->verdict;
}

std::vector<Judgement> rows_of(const fs::path& file) {
  return fs::exists(file) ? testing::read_judgements(file) : std::vector<Judgement>{};
}

}  // namespace

bool is_untouched(const Paths& paths, const Exercise& exercise) {
  const std::string answer = read_text(paths.answer(exercise));
  return answer.empty() || answer == skeleton(read_text(paths.solution(exercise)), paths.solution(exercise).string());
}

Inputs::Inputs(const Paths& paths) : paths_(paths) {
  std::set<fs::path> answers;
  for (const Week& week : paths.course.weeks())
    for (const Exercise& exercise : week.exercises) answers.insert(paths.answer(exercise));
  Hash hash;
  hash.add(compiler_options(paths));
  hash.add(read_text(paths.source / "CMakeLists.txt"));
  for (const char* folder : {"bench/machines", "cmake", "common", "data", "labs", "solutions"})
    for (const fs::path& file : files_below(paths.source / folder))
      if (!answers.count(file)) hash.add(file.string()), hash.add(read_text(file));
  suite_ = hash.value();
}

Basis Inputs::of(const Exercise& exercise, const std::set<std::string>& mine) const {
  const std::string answer = fingerprint(read_text(paths_.answer(exercise)));
  Hash hash;
  hash.add(hexadecimal(suite_));
  hash.add(answer);
  for (const Exercise& need : paths_.course.all_needs(exercise.id)) {
    hash.add(need.id);
    hash.add(mine.count(need.id) ? read_text(paths_.answer(need)) : "reference");
  }
  return {answer, hexadecimal(hash.value())};
}

std::optional<Record> last_record(const Paths& paths, const Exercise& exercise) {
  const std::vector<Judgement> rows = rows_of(record_file(paths, exercise));
  if (rows.empty()) return std::nullopt;
  return Record{rows.front(), row_of(rows, kAnswer) != fingerprint(read_text(paths.answer(exercise)))};
}

std::optional<Judgement> kept_verdict(const Paths& paths, const Exercise& exercise, const Basis& basis) {
  const std::vector<Judgement> rows = rows_of(record_file(paths, exercise));
  if (rows.empty() || row_of(rows, kInputs) != basis.all) return std::nullopt;
  return rows.front();
}

std::optional<Tested> kept_findings(const Paths& paths, const Exercise& exercise, const Basis& basis,
                                    const std::string& program) {
  const std::vector<Judgement> rows = rows_of(record_file(paths, exercise));
  if (rows.empty() || row_of(rows, kInputs) != basis.all) return std::nullopt;
  if (program.empty() || row_of(rows, kProgram) != program || row_of(rows, kPrinted) != "no") return std::nullopt;
  Tested tested{.whole = rows.front(), .parts = {}, .program = program, .object = row_of(rows, kObject)};
  const std::vector<std::string> ids = exercise.ids();
  for (const Judgement& row : rows) {
    if (row.verdict == to_string(Verdict::timeout) || row.verdict == to_string(Verdict::crash)) return std::nullopt;
    if (row.id != exercise.id && std::find(ids.begin(), ids.end(), row.id) != ids.end()) tested.parts.push_back(row);
  }
  return tested;
}

void keep_verdict(const Paths& paths, const Exercise& exercise, const Tested& tested, const Basis& basis) {
  std::vector<Judgement> rows{tested.whole,
                              {.id = kInputs, .verdict = basis.all},
                              {.id = kAnswer, .verdict = basis.answer},
                              {.id = kProgram, .verdict = tested.program},
                              {.id = kObject, .verdict = tested.object},
                              {.id = kPrinted, .verdict = tested.printed ? "yes" : "no"}};
  rows.insert(rows.end(), tested.parts.begin(), tested.parts.end());
  testing::write_judgements(record_file(paths, exercise), rows);
}

bool was_compiled_anew(const Paths& paths, const Exercise& exercise) {
  const std::string judged = row_of(rows_of(record_file(paths, exercise)), kObject);
  return !judged.empty() && judged != fingerprint_of_file(answers_object(paths, exercise));
}

void forget_verdict(const Paths& paths, const Exercise& exercise) {
  std::error_code gone;
  fs::remove(record_file(paths, exercise), gone);
}

std::string fingerprint_of_file(const fs::path& file) {
  const std::string bytes = read_text(file);
  return bytes.empty() ? "" : fingerprint(bytes);
}

fs::path answers_object(const Paths& paths, const Exercise& exercise) {
  for (const fs::path& file : files_below(paths.build / "labs" / "CMakeFiles" / ("mine." + exercise.id + ".dir")))
    if (file.filename() == exercise.name + ".cpp.o") return file;
  return {};
}

}  // namespace lockstep::tools
