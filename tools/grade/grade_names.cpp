#include "tools/grade/grade_names.hpp"

#include <algorithm>

namespace lockstep::tools {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> words_of_name(const std::string& text, char separator) {
  std::vector<std::string> words(1);
  for (const char c : text) c == separator ? words.emplace_back() : words.back() += c;
  return words;
}
bool is_digits(const std::string& word) {
  return !word.empty() && word.find_first_not_of("0123456789") == word.npos && word.size() < 20;
}
std::string first_words(const std::vector<std::string>& words, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += (i == 0 ? "" : "_") + words[i];
  return text;
}

/// Compares numbers that are written without zeros before them.
bool is_later(const std::string& a, const std::string& b) { return a.size() != b.size() ? a.size() > b.size() : a > b; }

/// True if the student who handed in `files` typed `text` into Moodle.
bool is_text_beside(const std::string& text, const std::string& files) {
  const std::optional<Downloaded> typed = read_download(text), uploaded = read_download(files);
  return typed && typed->typed && uploaded && !uploaded->typed && uploaded->student == typed->student;
}

}  // namespace

std::optional<Downloaded> read_download(const fs::path& submission) {
  const fs::path name = submission.filename().empty() ? submission.parent_path().filename() : submission.filename();
  const std::vector<std::string> words = words_of_name(name.string(), '_');
  for (std::size_t i = 1; i + 2 < words.size(); ++i) {
    if (!is_digits(words[i])) continue;
    const bool moodle = words[i + 1] == "assignsubmission";
    if (!moodle && !is_digits(words[i + 1])) continue;
    Downloaded download{.student = {}, .number = words[i], .upload = moodle ? "" : words[i + 1]};
    download.typed = moodle && words[i + 2] == "onlinetext";
    download.late = !moodle && i > 1 && words[i - 1] == "LATE";
    download.student = first_words(words, download.late ? i - 1 : i) + "_" + words[i];
    return download;
  }
  return {};
}

std::vector<HandedIn> newest_of_each(const std::vector<std::string>& submissions) {
  std::vector<HandedIn> all;
  std::vector<std::optional<Downloaded>> whose;
  for (const std::string& submission : submissions) {
    std::optional<Downloaded> download = read_download(submission);
    if (download && (download->upload.empty() || fs::path(submission).extension() == ".cpp")) download.reset();
    const auto same = std::find_if(whose.begin(), whose.end(), [&](const std::optional<Downloaded>& other) {
      return download && other && other->student == download->student;
    });
    if (same == whose.end()) {
      all.push_back({submission, {}}), whose.push_back(download);
      continue;
    }
    HandedIn& student = all[static_cast<std::size_t>(same - whose.begin())];
    if (is_later(download->upload, (*same)->upload))
      student.older.push_back(student.newest), student.newest = submission, *same = download;
    else
      student.older.push_back(submission);
  }
  for (const HandedIn& text : all)
    for (HandedIn& files : all)
      if (is_text_beside(text.newest, files.newest)) files.typed = text.newest;
  std::erase_if(all, [files = all](const HandedIn& text) {
    return std::any_of(files.begin(), files.end(), [&](const HandedIn& other) { return other.typed == text.newest; });
  });
  return all;
}

}  // namespace lockstep::tools
