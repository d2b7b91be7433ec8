#include "tools/course/sayings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "common/support/text/parse_number.hpp"
#include "common/testing/watch.hpp"
#include "tools/course/process.hpp"

namespace lockstep::tools {
namespace {

constexpr long kSecondsBetween = 10;

/// "f" of "void lockstep::week21::(anonymous namespace)::Ring::f(lockstep::Rank)".
std::string function_name(std::string text) {
  constexpr std::string_view without_name = "(anonymous namespace)::";
  for (auto at = text.find(without_name); at != text.npos; at = text.find(without_name))
    text.erase(at, without_name.size());
  text.erase(std::min(text.find('('), text.size()));
  return text.substr(text.find_last_of(" :") == text.npos ? 0 : text.find_last_of(" :") + 1);
}

/// The text up to the next tab, which are taken from `rest`.
std::string field(std::string_view& rest) {
  const std::string text(rest.substr(0, rest.find('\t')));
  rest.remove_prefix(std::min(text.size() + 1, rest.size()));
  return text;
}

}  // namespace

std::optional<std::string_view> Sayings::take(std::string_view line) {
  if (died_ && line.ends_with(']')) {
    frames_.emplace_back(line);
    return {};
  }
  const std::size_t died = line.find(testing::kDied), still = line.find(testing::kStill), at = std::min(died, still);
  if (at == line.npos) return line;
  if (at == died)
    hear_died(line.substr(at + testing::kDied.size()));
  else
    hear_still(line.substr(at + testing::kStill.size()));
  if (at == 0) return {};
  return line.substr(0, at);
}

std::vector<std::string> Sayings::command_for_place() const {
  std::vector<std::string> command{"addr2line", "-Cfie", program_.string()};
  for (std::size_t i = 0; i < frames_.size(); ++i) {
    const std::string& frame = frames_[i];
    const std::size_t begin = frame.rfind("+0x");
    if (begin == frame.npos || frame.find(program_.filename().string()) == frame.npos) continue;
    std::uint64_t address = std::strtoull(frame.c_str() + begin + 1, nullptr, 16);
    if (i > testing::kFramesOfHandler) --address;  // of a call that is to return
    command.push_back(fmt::format("{:#x}", address));
  }
  if (command.size() == 3 || find_program(command[0]).empty()) return {};
  return command;
}

std::string Sayings::place_in(const std::string& answer) const {
  const std::vector<std::string> command = command_for_place();
  std::vector<std::string> lines;
  if (!command.empty())
    run_command(
        {.arguments = command, .folder = {}, .on_line = [&](std::string_view line) { lines.emplace_back(line); }});
  return place_in(lines, answer);
}

std::string Sayings::place_in(const std::vector<std::string>& lines, const std::string& answer) {
  for (std::size_t i = 0; i + 1 < lines.size(); i += 2)
    if (const std::size_t name = lines[i + 1].rfind("/" + answer + ":"); name != std::string::npos)
      return fmt::format("{} ({})", lines[i + 1].substr(name + 1), function_name(lines[i]));
  return "";
}

void Sayings::hear_died(std::string_view said) {
  died_ = true;
  cause_ = field(said), case_ = field(said), options_ = field(said);
}

void Sayings::hear_still(std::string_view said) {
  const auto seconds = parse_number<long>(field(said));
  const auto rank = parse_number<int>(field(said));
  const std::string place = field(said), function = field(said);
  case_ = field(said), options_ = field(said);
  if (!seconds || !rank) return;
  const std::string where = std::filesystem::path(place).filename().string(), of = function_name(function);
  const bool called = !where.ends_with(":0");
  last_call_ = *rank < 0 ? ""
                         : fmt::format("rank {} {}", *rank,
                                       called ? fmt::format("last called the runtime at {} ({})", where, of)
                                              : "has not called the runtime yet");
  if (*seconds < next_ || !on_still_) return;
  next_ = *seconds + kSecondsBetween;
  on_still_(fmt::format("still running after {} s{}", *seconds, last_call_.empty() ? "" : ": " + last_call_));
}

}  // namespace lockstep::tools
