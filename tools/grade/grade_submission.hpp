// The part of a submission that counts: the named lab files, as text, and nothing else.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/course/course.hpp"

namespace lockstep::tools {

struct Submission {
  std::map<std::string, std::string> answers;    ///< by exercise id: the file's text
  std::map<std::string, std::string> refused;    ///< by exercise id: why its file does not count
  std::vector<std::string> ignored;              ///< C++ files that are no lab's, for a person to see
  std::map<std::string, std::string> misplaced;  ///< by exercise id: a file of its name at a place that does not count
  std::vector<std::string> archives;             ///< in the submission, and not looked into; at most 20
  std::vector<std::string> found;                ///< all its files, sources first; at most 20
  std::map<std::string, std::string> given;      ///< headers and tests, by path: the text; at most 500
  std::string opened;                            ///< the archive in it whose answers count; "": none
  std::size_t files = 0, unreadable_names = 0;   ///< in all; of an archive, those that are no UTF-8

  bool empty() const { return answers.empty() && refused.empty(); }
  /// Forgets among `ignored` and `misplaced` what a whole handout has anyway: files that are in `suite` under the same
  /// path, at the top or in one folder, and namesakes of answers that count.
  void leave_out_given_files(const std::filesystem::path& suite);
  /// If there is nothing to grade: what was found instead, what is expected, with the file of the first of `exercises`
  /// as an example, and which files may be theirs under other names.
  std::string found_instead(const std::vector<Exercise>& exercises) const;
  /// A file that may be `exercise`'s under another name: "Cost_Model (1).cpp", "cost_model.cpp.txt"; "" without one.
  std::string near_miss(const Exercise& exercise) const;
  /// Its misplaced file, or else a near miss.
  std::string may_be(const Exercise& exercise) const;
  /// "old/ddp.cpp (move it to FOLDER)", and of a folder with several "16 files in deep/FOLDER (move them to FOLDER)":
  /// the misplaced ones.
  std::string where_they_belong(const Course& course) const;
  /// Archives of several students, as a course system names them, are in it.
  bool is_download() const;
  /// A line that names the files, of those that the suite has as well, that are not as in `suite`; "" without one.
  std::string differing_remark(const std::filesystem::path& suite) const;
  /// Why `exercise` was not submitted: what is missing, and in a second line what was found, the nearest names, and
  /// where it belongs.
  std::string why_missing(const Exercise& exercise) const;
};

/// The places where a lab's file counts, in words.
std::string places_of(const Exercise& exercise);

/// The exercise that a file of a submission answers, by its path.
struct Place {
  const Exercise* exercise = nullptr;  ///< null: of none
  bool sure = true;                    ///< else it counts only where no file is at the exercise's own place
};

/// FOLDER/NAME.cpp, labs/FOLDER/NAME.cpp, either in one more folder, or NAME.cpp alone; and, not so sure, NAME.cpp in
/// one folder of another name, as a zipped folder of bare files has it. Of no exercise for every other path, and for
/// one that is absolute or has "..".
Place place_of(const std::vector<Exercise>& course, const std::filesystem::path& path);

/// The names that an archive lists, one per line.
struct ArchiveList {
  std::vector<std::string> answers;  ///< names at places that count, each once
  std::vector<std::string> twice;    ///< those of them that are there more than once
  std::vector<std::string> others;
};
/// Throws Error(usage) where it lists more than a submission has.
ArchiveList read_list(const std::string& list, const std::vector<Exercise>& course);

/// Reads archives: `cmake -E tar ARGUMENTS…` in `folder`. Returns its output; nothing if it failed.
using Tar = std::function<std::optional<std::string>(const std::vector<std::string>& arguments,
                                                     const std::filesystem::path& folder)>;

/// It knows every kind of archive. It runs confined: whatever is in the archive, it writes below `folder`.
std::optional<std::string> confined_tar(const std::vector<std::string>& arguments, const std::filesystem::path& folder);

/// Throws Error(usage) where there is neither a folder nor a file.
void need_submission(const std::filesystem::path& submission);

/// Reads a folder, a .zip, .tar, .tar.gz or .tgz, or one lab file. A folder in which no lab file counts, but one
/// archive lies, is that archive; of several archives, none is. Symbolic links, files that are not plain, those above
/// 256 KiB and answers that are there twice are refused; links to folders are not followed. Of archives only what
/// counts is unpacked, by `tar` into `scratch`; an entry that cannot be costs its own exercise. Throws Error(usage)
/// where there is nothing to read, or no password to read it with.
Submission read_submission(const std::filesystem::path& submission, const std::vector<Exercise>& course,
                           const std::filesystem::path& scratch, const Tar& tar = confined_tar);

}  // namespace lockstep::tools
