#include "tools/grade/similar.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "common/support/text/fnv.hpp"
#include "tools/course/cpp_tokens.hpp"
#include "tools/course/skeleton.hpp"
#include "tools/grade/grade.hpp"

namespace lockstep::tools {
namespace {

std::vector<Token> tokens_of(std::string_view text) {
  std::vector<Token> tokens;
  Scanner scanner(text);
  for (Token token = scanner.next(); token.kind != Token::Kind::end; token = scanner.next())
    tokens.push_back(std::move(token));
  return tokens;
}

bool stays(std::string_view name) {
  constexpr std::array control{"for", "while", "do", "if", "else", "return", "switch", "break", "continue"};
  return std::find(control.begin(), control.end(), name) != control.end();
}

/// The rest of a text that does not depend on how its author calls things. Signs are single characters.
std::vector<std::string> without_choices(std::string_view text, const std::set<std::string>& api) {
  const std::vector<Token> tokens = tokens_of(text);
  std::vector<std::string> plain;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const Token& token = tokens[i];
    const bool called = i + 1 < tokens.size() && tokens[i + 1].is("(");
    const bool member = i > 0 && tokens[i - 1].kind == Token::Kind::sign &&
                        std::string_view(".>:").find(tokens[i - 1].text.back()) != std::string_view::npos;
    if (token.word("const")) continue;
    if (token.kind == Token::Kind::literal)
      plain.emplace_back("s");
    else if (token.kind == Token::Kind::number)
      plain.emplace_back("n");
    else if (token.kind == Token::Kind::sign)
      for (const char c : token.text) plain.emplace_back(1, c);
    else if (stays(token.text) || ((called || member) && api.contains(token.text)))
      plain.push_back(token.text);
    else
      plain.emplace_back("v");
  }
  return plain;
}

std::vector<std::uint32_t> hashes_of_runs(const std::vector<std::string>& tokens) {
  std::vector<std::uint32_t> hashes;
  for (std::size_t begin = 0; begin + kRun <= tokens.size(); ++begin) {
    Fnv1a hash;
    for (std::size_t i = begin; i < begin + kRun; ++i) hash.add(tokens[i]), hash.add(" ");
    hashes.push_back(hash.folded());
  }
  return hashes;
}

/// The smallest hash of every window, the last of equal ones.
Fingerprints winnow(const std::vector<std::uint32_t>& hashes) {
  Fingerprints chosen;
  const std::size_t window = std::min(kWindow, hashes.size());
  for (std::size_t begin = 0; window > 0 && begin + window <= hashes.size(); ++begin)
    chosen.insert(*std::min_element(hashes.begin() + static_cast<std::ptrdiff_t>(begin),
                                    hashes.begin() + static_cast<std::ptrdiff_t>(begin + window)));
  return chosen;
}

/// Fingerprints that more than a third of the class has, and more than three.
std::map<std::string, Fingerprints> what_everybody_writes(const std::vector<Answers>& submissions) {
  std::map<std::string, std::map<std::uint32_t, std::size_t>> counts;
  for (const Answers& answers : submissions)
    for (const auto& [exercise, prints] : answers)
      for (const std::uint32_t print : prints) ++counts[exercise][print];
  std::map<std::string, Fingerprints> common;
  for (const auto& [exercise, of] : counts)
    for (const auto& [print, count] : of)
      if (count > std::max<std::size_t>(3, submissions.size() / 3)) common[exercise].insert(print);
  return common;
}

Fingerprints minus(const Fingerprints& all, const Fingerprints& others) {
  Fingerprints rest;
  std::set_difference(all.begin(), all.end(), others.begin(), others.end(), std::inserter(rest, rest.end()));
  return rest;
}

}  // namespace

std::string given_text(std::string_view solution, std::string_view file) {
  return skeleton(solution, file) + without_answers(solution, file);
}

Fingerprints fingerprints(std::string_view answer, std::string_view given, const std::set<std::string>& api) {
  const std::vector<std::uint32_t> known = hashes_of_runs(without_choices(given, api));
  return minus(winnow(hashes_of_runs(without_choices(answer, api))), Fingerprints(known.begin(), known.end()));
}

std::set<std::string> names_in(std::string_view header) {
  std::set<std::string> names;
  for (const Token& token : tokens_of(header))
    if (token.kind == Token::Kind::word) names.insert(token.text);
  return names;
}

std::string to_text(const Fingerprints& prints) {
  std::string text;
  for (const std::uint32_t print : prints) text += fmt::format("{:08x}", print);
  return text;
}

Fingerprints read_fingerprints(std::string_view text) {
  Fingerprints prints;
  for (std::size_t at = 0; at + 8 <= text.size(); at += 8)
    prints.insert(static_cast<std::uint32_t>(std::strtoul(std::string(text.substr(at, 8)).c_str(), nullptr, 16)));
  return prints;
}

std::vector<SimilarPair> similar_pairs(const std::vector<Answers>& submissions) {
  std::vector<Answers> own = submissions;
  const std::map<std::string, Fingerprints> common = what_everybody_writes(submissions);
  for (Answers& answers : own)
    for (auto& [exercise, prints] : answers)
      if (const auto known = common.find(exercise); known != common.end()) prints = minus(prints, known->second);
  std::vector<SimilarPair> pairs;
  for (std::size_t a = 0; a < own.size(); ++a)
    for (std::size_t b = a + 1; b < own.size(); ++b) {
      SimilarPair pair{.first = a, .second = b, .shared = {}};
      for (const auto& [exercise, prints] : own[a]) {
        const auto other = own[b].find(exercise);
        if (other == own[b].end()) continue;
        const std::size_t of = std::min(prints.size(), other->second.size());
        const std::size_t same = prints.size() - minus(prints, other->second).size();
        const double share = of == 0 ? 0 : static_cast<double>(same) / static_cast<double>(of);
        if (same >= kFewest && share >= kStandsOut) pair.shared.push_back({exercise, share, same, of});
      }
      std::sort(pair.shared.begin(), pair.shared.end(), [](const auto& x, const auto& y) {
        return x.share != y.share ? x.share > y.share : is_before(x.exercise, y.exercise);
      });
      if (!pair.shared.empty()) pairs.push_back(std::move(pair));
    }
  const auto weight = [](const SimilarPair& pair) {
    double sum = 0;
    for (const auto& each : pair.shared) sum += each.share * static_cast<double>(each.common);
    return sum;
  };
  std::stable_sort(pairs.begin(), pairs.end(),
                   [&](const SimilarPair& x, const SimilarPair& y) { return weight(x) > weight(y); });
  return pairs;
}

}  // namespace lockstep::tools
