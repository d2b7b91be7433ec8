// "Did you mean …?": the known name nearest to the typed one. All programs use it for unknown names and options.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error.hpp"

namespace lockstep {

/// Number of insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`, ignoring case
/// (restricted Damerau distance).
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  auto same = [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  };
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  std::iota(above.begin(), above.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same(a[i - 1], b[j - 1]) ? 0 : 1)});
      bool swapped = i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

/// True if `candidate` begins with `name`, which has three letters or more.
inline bool begins(std::string_view candidate, std::string_view name) {
  return name.size() >= 3 && candidate.size() > name.size() &&
         edit_distance(candidate.substr(0, name.size()), name) == 0;
}

/// Returns at most `most` candidates, the nearest to `name` first; one that begins with it is as near as one with a
/// wrong letter. Equally near ones keep their order.
inline std::vector<std::string> nearest_of(std::string_view name, std::span<const std::string> candidates,
                                           std::size_t most) {
  std::vector<std::pair<std::size_t, std::string>> found;
  for (const std::string& candidate : candidates)
    found.emplace_back(begins(candidate, name) ? 1 : edit_distance(name, candidate), candidate);
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(most, found.size()); ++i) names.push_back(found[i].second);
  return names;
}

/// Returns the nearest candidate. Empty only if there are none.
inline std::string nearest(std::string_view name, std::span<const std::string> candidates) {
  const std::vector<std::string> names = nearest_of(name, candidates, 1);
  return names.empty() ? "" : names.front();
}

/// True if a suggestion helps: it shares at least half with the typed name.
inline bool near(std::string_view name, std::string_view suggestion) {
  return begins(suggestion, name) || 2 * edit_distance(name, suggestion) <= std::max(name.size(), suggestion.size());
}

/// Returns "unknown machine 'dgx_h10': did you mean 'dgx_h100'? Known: a, b, c." One clear sentence for bad input.
inline std::string unknown_name(std::string_view what, std::string_view name, std::span<const std::string> known) {
  std::string text = "unknown " + std::string(what) + " '" + std::string(name) + "'";
  std::string best = nearest(name, known);
  if (best.empty()) return text + ".";
  text += near(name, best) ? ": did you mean '" + best + "'?" : ".";
  text += " Known: ";
  for (std::size_t i = 0; i < known.size(); ++i) text += (i ? ", " : "") + known[i];
  return text + ".";
}

/// Throws Error(usage) with this sentence unless `name` is among `known`.
inline void check_known(std::string_view what, std::string_view name, std::span<const std::string> known) {
  if (std::find(known.begin(), known.end(), name) == known.end())
    throw Error(Verdict::usage, unknown_name(what, name, known));
}

/// Returns the first of `all` whose `member` is `name`; throws likewise if there is none.
template <class All, class Member>
const auto& find_known(std::string_view what, std::string_view name, const All& all, Member member) {
  std::vector<std::string> known;
  for (const auto& each : all) {
    if (each.*member == name) return each;
    known.push_back(each.*member);
  }
  throw Error(Verdict::usage, unknown_name(what, name, known));
}

/// An option as --help shows it.
struct OptionName {
  std::string name;  ///< with its dashes
  std::string help;
};

/// True if `text` contains this whole word.
inline bool has_word(std::string_view text, std::string_view word) {
  const auto letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  for (std::size_t at = 0; !word.empty() && at + word.size() <= text.size(); ++at) {
    const bool begins = at == 0 || !letter(text[at - 1]);
    const bool ends = at + word.size() == text.size() || !letter(text[at + word.size()]);
    if (begins && ends && edit_distance(text.substr(at, word.size()), word) == 0) return true;
  }
  return false;
}

/// Returns "unknown option '--modle': did you mean '--model'? --help lists them all." If no name is near, suggests an
/// option whose help contains the word: '--text' is '--data'.
inline std::string unknown_option(std::string_view typed, std::span<const OptionName> known) {
  const auto bare = [](std::string_view name) {
    return name.substr(std::min(name.find_first_not_of('-'), name.size()));
  };
  const std::string name(typed.substr(0, typed.find('=')));
  std::vector<std::string> names;
  for (const OptionName& option : known) names.emplace_back(bare(option.name));
  std::string best = nearest(bare(name), names);
  best = !best.empty() && near(bare(name), best) ? "--" + best : "";
  for (std::size_t i = 0; best.empty() && i < known.size(); ++i)
    if (known[i].name != "--help" && has_word(known[i].help, bare(name))) best = known[i].name;
  return "unknown option '" + name + "'" + (best.empty() ? "" : ": did you mean '" + best + "'?") +
         (best.empty() ? "; --help lists them all." : " --help lists them all.");
}

}  // namespace lockstep
