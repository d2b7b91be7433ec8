// What was found in a submission, for students and staff to read: what may be meant, and where it belongs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "common/support/text/counted.hpp"
#include "common/support/text/nearest.hpp"
#include "tools/course/paths.hpp"
#include "tools/grade/grade.hpp"
#include "tools/grade/grade_names.hpp"
#include "tools/grade/grade_submission.hpp"

namespace lockstep::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostNamed = 3;

/// "costmodel" of "Cost_Model (1).cpp" and "cost-model.cpp.txt"; "" of what is no C++. Without `numbered`, also of
/// "cost_model-2.cpp" and "cost_model copy.cpp".
std::string bare_name(const fs::path& file, bool numbered) {
  std::string name = file.filename().string(), bare;
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const std::size_t end = name.find(".cpp");
  if (end == name.npos) return "";
  bool inside = false;  // brackets
  for (const char c : name.substr(0, end)) {
    inside = (inside || c == '(') && c != ')';
    if (!inside && std::isalnum(static_cast<unsigned char>(c))) bare += c;
  }
  if (!numbered) bare.erase(bare.find_last_not_of("0123456789") + 1);
  if (!numbered && bare.ends_with("copy")) bare.erase(bare.size() - 4);
  return bare;
}

/// "a, b, c and 11 more", of so many.
std::string named(const std::vector<std::string>& names, std::size_t all) {
  const std::size_t more = all - std::min(all, names.size());
  return fmt::format("{}{}", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

/// Those whose names are nearest to the exercise's file.
std::vector<std::string> near_names(const std::vector<std::string>& files, const Exercise& e) {
  std::vector<std::pair<std::size_t, std::string>> sorted;
  for (const std::string& file : files)
    sorted.emplace_back(edit_distance(fs::path(file).filename().string().substr(0, 60), e.name + ".cpp"), file);
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  sorted.resize(std::min(sorted.size(), kMostNamed));
  std::vector<std::string> names;
  for (const auto& [distance, file] : sorted) names.push_back(file);
  return names;
}

/// labs/a.hpp of lockstep/labs/a.hpp, as in an archive of a folder.
fs::path without_first_folder(const fs::path& file) {
  fs::path below;
  for (auto step = std::next(file.begin()); step != file.end(); ++step) below /= *step;
  return below;
}

/// The suite's file of this path, from its top or from labs/, without its first folder or with it.
std::optional<fs::path> original_of(const fs::path& suite, const fs::path& file) {
  const fs::path below = without_first_folder(file);
  for (const fs::path& path : {file, below, "labs" / file, "labs" / below}) {
    const bool handed_out = path.begin() != path.end() && (*path.begin() == "labs" || *path.begin() == "common");
    if (std::error_code none; handed_out && fs::is_regular_file(suite / path, none)) return suite / path;
  }
  return {};
}

std::string without_windows_ends(std::string text) {
  std::erase(text, '\r');
  return text;
}

}  // namespace

std::string places_of(const Exercise& e) {
  return fmt::format("{0}/{1}.cpp at the top, below labs/ or below one more folder, or {1}.cpp at the top", e.folder,
                     e.name);
}

std::string Submission::found_instead(const std::vector<Exercise>& exercises) const {
  std::string text =
      fmt::format("No file of this submission is in an accepted place. Found: {}", counted(files, "file"));
  std::vector<std::string> names;
  for (const auto& [id, file] : misplaced) names.push_back(file);
  names.insert(names.end(), ignored.begin(), ignored.end());
  names.insert(names.end(), archives.begin(), archives.end());
  if (!opened.empty()) text += fmt::format(", with those in {}", opened);
  if (!names.empty()) text += fmt::format(", among them {}", names.front());
  text += fmt::format("; expected, for example, {}.\n", places_of(exercises.front()));
  for (const Exercise& e : exercises)
    if (const std::string near = near_miss(e); !near.empty())
      text += fmt::format("Rename {} to {}.cpp.\n", near, e.name);
  if (unreadable_names > 0)
    text += fmt::format(
        "{} in it cannot be read, because they are not UTF-8: rename the files and folders, and pack them "
        "again.\n",
        counted(unreadable_names, "name"));
  return text;
}

std::string Submission::near_miss(const Exercise& e) const {
  const std::string wanted = bare_name(e.name + ".cpp", true);
  for (const bool numbered : {true, false})
    for (const std::vector<std::string>* files : {&ignored, &found})
      for (const std::string& file : *files)
        if ((files == &ignored || fs::path(file).extension() != ".cpp") && bare_name(file, numbered) == wanted)
          return file;
  return "";
}

std::string Submission::may_be(const Exercise& e) const {
  const auto there = misplaced.find(e.id);
  return there == misplaced.end() ? near_miss(e) : there->second;
}

std::string Submission::where_they_belong(const Course& course) const {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> files_in;  // by where they are, and belong
  for (const auto& [id, file] : misplaced)
    files_in[{fs::path(file).parent_path().string(), course.exercise(id).folder}].push_back(file);
  std::vector<std::string> groups;
  for (const auto& [folders, names] : files_in)
    groups.push_back(names.size() == 1 ? fmt::format("{} (move it to {})", names.front(), folders.second)
                                       : fmt::format("{} files in {} (move them to {})", names.size(),
                                                     folders.first.empty() ? "." : folders.first, folders.second));
  groups.resize(std::min<std::size_t>(groups.size(), 20));
  return fmt::format("{}", fmt::join(groups, ", "));
}

void Submission::leave_out_given_files(const fs::path& suite) {
  const auto is_given = [&suite](const fs::path& file) {
    if (file.is_absolute() || std::find(file.begin(), file.end(), "solutions") != file.end()) return false;
    const fs::path below = without_first_folder(file);
    std::error_code none;
    return fs::exists(suite / file, none) || (!below.empty() && fs::exists(suite / below, none));
  };
  std::erase_if(ignored, is_given);
  std::erase_if(misplaced, [&](const auto& each) { return answers.count(each.first) || is_given(each.second); });
}

bool Submission::is_download() const {
  std::set<std::string> students;
  for (const fs::path archive : archives)
    if (const auto download = read_download(*archive.lexically_normal().begin())) students.insert(download->student);
  return students.size() > 1;
}

std::string Submission::differing_remark(const fs::path& suite) const {
  std::vector<std::string> names;
  for (const auto& [path, text] : given) {
    const std::optional<fs::path> ours = original_of(suite, path);
    if (ours && without_windows_ends(text) != without_windows_ends(read_text(*ours)))
      names.push_back(fs::path(path).filename().string());
  }
  if (names.empty()) return "";
  const std::size_t all = names.size();
  names.resize(std::min(all, kMostNamed));
  return fmt::format("{}{}.\n", kIgnored, named(names, all));
}

std::string Submission::why_missing(const Exercise& e) const {
  std::string text = fmt::format("there is no labs/{}/{}.cpp", e.folder, e.name);
  if (const auto there = misplaced.find(e.id); there != misplaced.end())
    text += fmt::format("; there is {}, which does not count: move it to {}/{}.cpp", there->second, e.folder, e.name);
  else if (const std::string near = near_miss(e); !near.empty())
    text += fmt::format(": rename {} to {}.cpp", near, e.name);
  return text + fmt::format("\nFound: {}. Expected: {}", named(near_names(found, e), files), places_of(e));
}

}  // namespace lockstep::tools
