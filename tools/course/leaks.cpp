#include "tools/course/leaks.hpp"

#include <algorithm>
#include <cstdint>

#include "tools/course/skeleton.hpp"

namespace lockstep::tools {
namespace {

constexpr std::size_t kTelling = 40;  // characters

/// A text's lines, each after the other, without blanks, quotation marks and the characters below.
struct Squeezed {
  std::string text;
  std::vector<std::size_t> ends;  // in `text`, of each line
};

/// Without comments, or with the words in them.
Squeezed squeezed(std::string_view text, bool comments) {
  Squeezed all;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (!comments) line = line.substr(0, line.find("//"));
    std::string kept;
    for (const char c : line)
      if (c != ' ' && c != '\t' && c != '\r' && c != '"' && c != '\\') kept += c;
    kept.erase(0, std::min(kept.find_first_not_of("/#*>"), kept.size()));
    // Braces alone may stand anywhere.
    if (kept.find_first_not_of("{}();") != kept.npos) all.text += kept;
    all.ends.push_back(all.text.size());
  }
  return all;
}

/// A number for each kTelling characters in a row, the next from the one before it.
class RollingHash {
 public:
  explicit RollingHash(std::string_view first) {
    for (std::size_t i = 0; i < kTelling; ++i) {
      value_ = value_ * kBase + byte(first[i]);
      if (i > 0) power_ *= kBase;
    }
  }
  void roll(char out, char in) { value_ = (value_ - byte(out) * power_) * kBase + byte(in); }
  std::size_t value() const { return value_; }

 private:
  static constexpr std::uint64_t kBase = 1099511628211;
  static std::uint64_t byte(char c) { return static_cast<unsigned char>(c) + 1; }
  std::uint64_t value_ = 0, power_ = 1;
};

/// Lines that say something, squeezed.
std::vector<std::string> telling_lines(std::string_view answer) {
  const Squeezed all = squeezed(answer, false);
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (const std::size_t end : all.ends) {
    if (end > begin) lines.push_back(all.text.substr(begin, end - begin));
    begin = end;
  }
  return lines;
}

}  // namespace

void Leaks::add(std::string_view solution, std::string_view file) {
  replace_regions(solution, file, [&](const Region& region) {
    const std::vector<std::string> lines = telling_lines(region.answer);
    for (std::size_t first = 0; first < lines.size(); ++first) {
      std::string words;
      std::size_t next = first;
      while (next < lines.size() && (words.size() < kTelling || next < first + 2)) words += lines[next++];
      if (words.size() >= kTelling && (next >= first + 2 || lines.size() == 1))
        passages_.emplace(RollingHash(words).value(), Passage{region.id, words});
    }
    return std::string();
  });
}

std::optional<Leak> Leaks::find(std::string_view text) const {
  for (const bool comments : {false, true}) {
    const Squeezed all = squeezed(text, comments);
    if (all.text.size() < kTelling) continue;
    RollingHash hash(all.text);
    for (std::size_t at = 0;; ++at) {
      const auto [begin, end] = passages_.equal_range(hash.value());
      for (auto each = begin; each != end; ++each)
        if (all.text.compare(at, each->second.words.size(), each->second.words) == 0) {
          const auto line = std::upper_bound(all.ends.begin(), all.ends.end(), at) - all.ends.begin();
          return Leak{each->second.id, static_cast<int>(line) + 1, each->second.words};
        }
      if (at + kTelling == all.text.size()) break;
      hash.roll(all.text[at], all.text[at + kTelling]);
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::tools
