// Reads a submission: which of its files count, and what else is there. grade_found.cpp says it in words.
#include "tools/grade/grade_submission.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <utility>

#include "common/error.hpp"
#include "common/support/json/escape.hpp"
#include "tools/course/process.hpp"
#include "tools/grade/grade_run.hpp"

namespace lockstep::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestFile = 256 * 1024, kMostEntries = 20'000, kMostAnswers = 500, kMostArchives = 20,
                      kMostNoted = 2'000, kMostGiven = 500, kMostFound = 20, kLongestList = std::size_t{8} << 20;

bool may_contain_a_submission(const std::string& folder) {
  constexpr std::array elsewhere{"solutions", "build", "outputs", "__MACOSX", "..", "."};
  return std::find(elsewhere.begin(), elsewhere.end(), folder) == elsewhere.end();
}

[[noreturn]] void too_many(const std::string& what, std::size_t most) {
  throw Error(Verdict::usage,
              fmt::format("{} has more than {} files: a submission has lab files and little else", what, most));
}

/// Text of a plain file; in `refusal` why not. Follows no link.
std::string read_plain(const fs::path& file, std::string& refusal) {
  int from = open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  struct stat about {};
  std::string text;
  if (from < 0 || fstat(from, &about) != 0 || !S_ISREG(about.st_mode)) {
    refusal = "it is a symbolic link, or not a plain file";
  } else if (static_cast<std::uint64_t>(about.st_size) > kLargestFile) {
    refusal = fmt::format("it has {} bytes; the limit is {}", about.st_size, kLargestFile);
  } else {
    text.resize(static_cast<std::size_t>(about.st_size));
    ssize_t got = read(from, text.data(), text.size());
    if (got != about.st_size) refusal = "it cannot be read";
  }
  if (from >= 0) close(from);
  return text;
}

bool is_archive(const fs::path& file) {
  constexpr std::array kinds{".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar"};
  return std::find(kinds.begin(), kinds.end(), file.extension()) != kinds.end();
}

/// True for files that macOS adds to a folder or archive: of no interest to anybody.
bool is_of_macos(const fs::path& inside) {
  return inside.filename().string().starts_with("._") || inside.filename() == ".DS_Store" ||
         std::find(inside.begin(), inside.end(), "__MACOSX") != inside.end();
}

/// For a person to see, where a name may have been misspelt, or a folder is in the wrong one.
void note_ignored(Submission& result, const std::vector<Exercise>& course, const fs::path& inside) {
  if (is_archive(inside) && result.archives.size() < kMostArchives) result.archives.push_back(inside.string());
  for (const Exercise& exercise : course)
    if (inside.filename() == exercise.name + ".cpp") {
      result.misplaced.try_emplace(exercise.id, inside.string());
      return;
    }
  const bool answer = inside.extension() == ".cpp" && !inside.stem().string().ends_with("_test");
  if (answer && result.ignored.size() < kMostNoted) result.ignored.push_back(inside.string());
}

/// Sources before all others, in which a misspelt name is seen.
void note_found(Submission& result, const fs::path& inside) {
  const auto is_source = [](const fs::path& file) { return file.string().find(".c") != std::string::npos; };
  const auto first_other = std::find_if_not(result.found.begin(), result.found.end(), is_source);
  result.found.insert(is_source(inside) ? first_other : result.found.end(), inside.string());
  if (result.found.size() > kMostFound) result.found.pop_back();
}

/// A header or a test, of which the suite may have another.
bool may_be_given(const fs::path& inside) {
  const bool leaves = inside.is_absolute() || std::find(inside.begin(), inside.end(), "..") != inside.end();
  return !leaves && (inside.extension() == ".hpp" || inside.filename().string().ends_with("_test.cpp"));
}

void note_given(Submission& result, const fs::path& inside, const fs::path& file) {
  if (!may_be_given(inside) || result.given.size() == kMostGiven) return;
  std::string refusal, text = read_plain(file, refusal);
  if (refusal.empty()) result.given[inside.string()] = std::move(text);
}

void add_answer(Submission& result, const Exercise& exercise, const fs::path& folder, const fs::path& path) {
  std::string refusal, text = read_plain(path, refusal);
  if (result.answers.count(exercise.id) || result.refused.count(exercise.id)) refusal = "it is present more than once";
  if (refusal.empty()) {
    result.answers[exercise.id] = text;
  } else {
    result.answers.erase(exercise.id);
    result.refused[exercise.id] = fmt::format("{}: {}", path.lexically_relative(folder).string(), refusal);
  }
}

/// Files below `folder`; those at an exercise's own place go before others of the same name.
Submission read_files(const std::vector<fs::path>& files, const std::vector<Exercise>& course, const fs::path& folder) {
  Submission result;
  std::vector<fs::path> unsure;
  for (const fs::path& file : files) {
    const fs::path inside = file.lexically_relative(folder);
    if (is_of_macos(inside)) continue;
    ++result.files, note_found(result, inside), note_given(result, inside, file);
    const Place place = place_of(course, inside);
    if (!place.exercise)
      note_ignored(result, course, inside);
    else if (place.sure)
      add_answer(result, *place.exercise, folder, file);
    else
      unsure.push_back(file);
  }
  const Submission sure = result;
  for (const fs::path& file : unsure) {
    const fs::path inside = file.lexically_relative(folder);
    const Exercise& exercise = *place_of(course, inside).exercise;
    if (sure.answers.count(exercise.id) || sure.refused.count(exercise.id))
      note_ignored(result, course, inside);
    else
      add_answer(result, exercise, folder, file);
  }
  return result;
}

Submission read_folder(const fs::path& folder, const std::vector<Exercise>& course) {
  std::vector<fs::path> files;
  fs::recursive_directory_iterator all(folder, fs::directory_options::skip_permission_denied), end;
  std::error_code unknown;
  for (std::size_t count = 0; all != end; all.increment(unknown), ++count) {
    if (count == kMostEntries) too_many(folder.string(), kMostEntries);
    if (!all->is_directory(unknown) || all->is_symlink(unknown)) files.push_back(all->path());
    if (all.depth() > 4) all.disable_recursion_pending();
  }
  std::sort(files.begin(), files.end());
  return read_files(files, course, folder);
}

/// The first entry of a .zip says whether it was packed with a password: APPNOTE.TXT, 4.4.4.
bool is_encrypted(const fs::path& archive) {
  std::string begin(8, '\0');
  std::ifstream(archive, std::ios::binary).read(begin.data(), 8);
  return begin.starts_with("PK\x03\x04") && (begin[6] & 1);
}

/// Unpacks answers, each on its own where together they fail; in `refused` those that cannot be.
void unpack_answers(const fs::path& archive, const std::vector<Exercise>& course, const ArchiveList& listed,
                    const fs::path& scratch, const Tar& tar, std::map<std::string, std::string>& refused) {
  std::vector<std::string> arguments{"xf", archive.string(), "--"};
  arguments.insert(arguments.end(), listed.answers.begin(), listed.answers.end());
  const bool all = listed.answers.empty() || tar(arguments, scratch).has_value();
  for (const std::string& entry : listed.answers) {
    const std::string& id = place_of(course, entry).exercise->id;
    const auto is_it = [&](const std::string& other) { return other == entry; };
    if (std::any_of(listed.twice.begin(), listed.twice.end(), is_it)) {
      refused[id] = entry + ": it is present more than once";
    } else if (!all && !tar({"xf", archive.string(), "--", entry}, scratch)) {
      std::error_code ignored;
      fs::remove(scratch / entry, ignored);  // its beginning
      refused[id] = fmt::format("{}: it is damaged, or has more than {} bytes", entry, kLargestFile);
    }
  }
}

/// Unpacks the part of the archive that counts into `scratch`; returns the names of everything else. A failure is not
/// in CMake's words.
std::vector<std::string> unpack(const fs::path& archive, const std::vector<Exercise>& course, const fs::path& scratch,
                                const Tar& tar, std::map<std::string, std::string>& refused) {
  const std::string name = archive.filename().string();
  if (is_encrypted(archive))
    throw Error(Verdict::usage, fmt::format("{} is encrypted: pack it without a password", name));
  const std::optional<std::string> list = tar({"tf", archive.string()}, scratch);
  if (!list)
    throw Error(Verdict::usage,
                fmt::format("{} is neither a complete .zip, .tar, .tar.gz or .tgz, nor a folder or a lab file", name));
  ArchiveList listed = read_list(*list, course);
  unpack_answers(archive, course, listed, scratch, tar, refused);
  return std::move(listed.others);
}

/// Headers and tests among an archive's other files: as many as can be unpacked.
std::map<std::string, std::string> given_in(const fs::path& archive, const std::vector<std::string>& others,
                                            const Tar& tar) {
  std::vector<std::string> arguments{"xf", archive.string(), "--"};
  for (const std::string& other : others)
    if (may_be_given(other) && !is_of_macos(other) && arguments.size() < kMostGiven) arguments.push_back(other);
  if (arguments.size() == 3) return {};
  const Scratch scratch;
  (void)tar(arguments, scratch.path());
  return read_folder(scratch.path(), {}).given;
}

Submission read_archive(const fs::path& archive, const std::vector<Exercise>& course, const fs::path& scratch,
                        const Tar& tar) {
  std::map<std::string, std::string> refused;
  const Scratch plain;
  fs::path named = fs::absolute(archive);
  if (utf8(named.string()) != named.string()) {  // CMake lists nothing of an archive whose path is not UTF-8
    named = plain.path() / "archive";
    fs::copy_file(archive, named);
  }
  std::vector<std::string> others = unpack(named, course, scratch, tar, refused);
  Submission result = read_folder(scratch, course);
  for (auto& [id, why] : refused) result.answers.erase(id), result.refused[id] = why;
  result.given = given_in(named, others, tar);
  for (const std::string& other : others) {
    if (other.empty())
      ++result.unreadable_names;
    else if (!other.ends_with('/') && !is_of_macos(other))
      ++result.files, note_found(result, other), note_ignored(result, course, other);
  }
  return result;
}

/// The only archive of a folder that has no lab file, wherever: course systems put what a student uploads into a
/// folder. Throws Error(usage) where there are several, of which one may be an older one.
std::optional<fs::path> lone_archive(const Submission& found, const fs::path& folder) {
  std::vector<std::string> archives;
  for (const fs::path inside : found.archives) {
    const bool elsewhere = std::any_of(inside.begin(), inside.end(),
                                       [](const fs::path& step) { return !may_contain_a_submission(step.string()); });
    if (!elsewhere && fs::is_regular_file(fs::symlink_status(folder / inside))) archives.push_back(inside.string());
  }
  if (!found.empty() || !found.misplaced.empty() || archives.empty()) return {};
  if (archives.size() > 1)
    throw Error(Verdict::usage,
                fmt::format("{} archives and no lab file: leave one of {}",
                            archives.size() == 2 ? "two" : std::to_string(archives.size()), fmt::join(archives, ", ")));
  return archives.front();
}

/// The answers in that archive, and of the rest of the folder what a person should see.
Submission read_in_folder(Submission around, const fs::path& archive, const fs::path& folder,
                          const std::vector<Exercise>& course, const fs::path& scratch, const Tar& tar) {
  Submission result = read_archive(folder / archive, course, scratch, tar);
  result.opened = archive.string();
  result.files += around.files - 1;
  std::erase(around.archives, result.opened);
  for (auto member : {&Submission::ignored, &Submission::archives})
    (result.*member).insert((result.*member).end(), (around.*member).begin(), (around.*member).end());
  result.misplaced.merge(around.misplaced), result.given.merge(around.given);
  return result;
}

}  // namespace

ArchiveList read_list(const std::string& list, const std::vector<Exercise>& course) {
  ArchiveList read;
  if (static_cast<std::size_t>(std::count(list.begin(), list.end(), '\n')) > kMostEntries) too_many("it", kMostEntries);
  for (std::size_t begin = 0, end; (end = list.find('\n', begin)) != list.npos; begin = end + 1) {
    const std::string entry = list.substr(begin, end - begin);
    if (read.answers.size() + read.twice.size() > kMostAnswers)
      too_many("among those that may count, it", kMostAnswers);
    if (!place_of(course, entry).exercise)
      read.others.push_back(entry);
    else if (const auto same = std::find_if(read.answers.begin(), read.answers.end(),
                                            [&](const std::string& other) {
                                              return fs::path(other).lexically_normal() ==
                                                     fs::path(entry).lexically_normal();
                                            });
             same == read.answers.end())
      read.answers.push_back(entry);
    else
      read.twice.push_back(*same);
  }
  return read;
}

Place place_of(const std::vector<Exercise>& course, const fs::path& path) {
  std::vector<std::string> folders;
  for (const fs::path& step : path.lexically_normal().parent_path()) folders.push_back(step.string());
  for (const fs::path& step : path) {
    if (path.is_absolute() || step == "..") return {};
  }
  const auto is_a_weeks = [&](const std::string& folder) {
    return std::any_of(course.begin(), course.end(), [&](const Exercise& e) { return e.folder == folder; });
  };
  for (const Exercise& exercise : course) {
    if (path.filename() != exercise.name + ".cpp") continue;
    if (folders.empty()) return {&exercise};
    std::vector<std::string> before = folders;
    if (before.back() != exercise.folder) {
      const bool near = folders.size() == 1 && may_contain_a_submission(folders[0]) && !is_a_weeks(folders[0]);
      return near ? Place{&exercise, false} : Place{};
    }
    before.pop_back();
    if (!before.empty() && before.back() == "labs") before.pop_back();
    if (before.empty() || (before.size() == 1 && may_contain_a_submission(before[0]))) return {&exercise};
  }
  return {};
}

std::optional<std::string> confined_tar(const std::vector<std::string>& arguments, const fs::path& folder) {
  Confined command{.arguments = {find_program("cmake"), "-E", "tar"},
                   .folder = folder,
                   .limits = {.wall_seconds = 60, .file_bytes = kLargestFile + 1},
                   .rules = Rules::reader,
                   .may_read = {arguments.at(1)},
                   .kept_bytes = kLongestList};
  command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
  ConfinedEnd end = run_confined(command);
  // CMake 3.25 says that a single entry is damaged, and ends with 0.
  if (end.exit_code != 0 || end.output.find("cmake -E tar: error: ") != std::string::npos) return {};
  return std::move(end.output);
}

void need_submission(const fs::path& submission) {
  std::error_code unknown;
  if (!fs::is_directory(submission, unknown) && !fs::is_regular_file(submission, unknown))
    throw Error(Verdict::usage, fmt::format("{} is neither a folder nor an archive{}", submission.filename().string(),
                                            fs::exists(submission, unknown) ? "" : ": there is no such file"));
}

Submission read_submission(const fs::path& submission, const std::vector<Exercise>& course, const fs::path& scratch,
                           const Tar& tar) {
  if (fs::is_directory(submission)) {
    Submission found = read_folder(submission, course);
    const std::optional<fs::path> archive = lone_archive(found, submission);
    return archive ? read_in_folder(std::move(found), *archive, submission, course, scratch, tar) : found;
  }
  need_submission(submission);
  if (submission.extension() == ".cpp") return read_files({submission}, course, submission.parent_path());
  Submission found = read_archive(submission, course, scratch, tar);
  // A folder that was packed again, including its old archive.
  if (found.empty() && found.archives.size() == 1)
    (void)tar({"xf", fs::absolute(submission).string(), "--", found.archives.front()}, scratch);
  const std::optional<fs::path> archive = lone_archive(found, scratch);
  if (!archive) return found;
  const Scratch inner;
  return read_in_folder(std::move(found), *archive, scratch, course, inner.path(), tar);
}

}  // namespace lockstep::tools
