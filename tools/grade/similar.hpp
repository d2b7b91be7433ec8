// Measures how much two answers have in common, however their variables are called: winnowing (Schleimer, Wilkerson,
// Aiken: "Winnowing: local algorithms for document fingerprinting", SIGMOD 2003), as MOSS does it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::tools {

/// A text's fingerprints: hashes of runs of tokens, chosen so that every run of kGuaranteed tokens that two texts share
/// gives them one in common.
using Fingerprints = std::set<std::uint32_t>;
inline constexpr std::size_t kRun = 14, kWindow = 6, kGuaranteed = kRun + kWindow - 1;

/// The text that every answer to an exercise may have in common with the others: its skeleton, and that without its
/// todo lines. Throws as skeleton() does.
std::string given_text(std::string_view solution, std::string_view file);

/// Fingerprints of an answer, without those of the text that was `given`. Names, types and numbers are each as good as
/// another, except those of `api` where they are called or are members; comments and the text of strings do not count.
Fingerprints fingerprints(std::string_view answer, std::string_view given, const std::set<std::string>& api);

/// All names in a header: what an answer may call.
std::set<std::string> names_in(std::string_view header);

/// "1f03…": eight hexadecimal digits each; and back.
std::string to_text(const Fingerprints& prints);
Fingerprints read_fingerprints(std::string_view text);

/// By exercise.
using Answers = std::map<std::string, Fingerprints>;

/// Two submissions with an exercise in which they have much in common.
struct SimilarPair {
  std::size_t first = 0, second = 0;  ///< in the order of the submissions
  struct Shared {
    std::string exercise;
    double share = 0;  ///< of the shorter one's fingerprints
    std::size_t common = 0, of = 0;
  };
  std::vector<Shared> shared;  ///< the largest share first, equal ones in the order of the course
};

/// The pairs that stand out, most in common first: at least kStandsOut of the shorter answer's fingerprints, and
/// kFewest of them. Those that more than a third of a class has, and more than three of it, are what everybody writes,
/// and do not count.
inline constexpr double kStandsOut = 0.6;
inline constexpr std::size_t kFewest = 6;
std::vector<SimilarPair> similar_pairs(const std::vector<Answers>& submissions);

}  // namespace lockstep::tools
