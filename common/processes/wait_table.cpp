#include "common/processes/wait_table.hpp"

#include <fmt/format.h>

#include <vector>

namespace lockstep::processes {

namespace {
/// The ranks that wait for each other in a circle, starting with the lowest; empty when there is none.
std::vector<int> circle(std::span<const Row> rows) {
  for (int first = 0; first < static_cast<int>(rows.size()); ++first) {
    std::vector<int> path{first};
    std::vector<bool> seen(rows.size(), false);
    seen[first] = true;
    for (int at = rows[first].peer; at >= 0 && rows[path.back()].state == Row::State::waiting; at = rows[at].peer) {
      if (at == first) return path;
      if (seen[at]) break;
      seen[at] = true;
      path.push_back(at);
    }
  }
  return {};
}
}  // namespace

std::string wait_table(const std::string& headline, std::span<const Row> rows) {
  const int count = static_cast<int>(rows.size());
  std::string text = headline;
  if (const std::vector<int> ranks = circle(rows); !ranks.empty()) {
    text += "; these wait for each other: ";
    for (int rank : ranks) text += fmt::format("rank {} → ", rank);
    text += fmt::format("rank {}", ranks.front());
  } else {
    for (int rank = 0; rank < count; ++rank) {
      const int peer = rows[rank].peer;
      if (rows[rank].state != Row::State::waiting || peer < 0 || rows[peer].state != Row::State::finished) continue;
      text += fmt::format("; rank {} waits for rank {}, which has finished", rank, peer);
      break;
    }
  }
  for (int rank = 0; rank < count; ++rank)
    text += fmt::format("\n  rank {}: {}", rank, rows[rank].words.empty() ? "no answer" : rows[rank].words);
  return text;
}

Finding judge(std::span<const Row> rows, std::span<const std::uint64_t> last_activity, double patience_seconds) {
  bool stuck = true, busy = false, same = true;
  Finding finding;
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    const Row& row = rows[rank];
    finding.silent = finding.silent || row.state == Row::State::no_answer;
    if (row.state == Row::State::working) {
      busy = true;
      same = same && row.activity == last_activity[rank];
    }
    stuck = stuck && row.idle_seconds >= patience_seconds / 2;
  }
  if (stuck && (!busy || same)) finding.verdict = busy ? Verdict::timeout : Verdict::deadlock;
  return finding;
}

}  // namespace lockstep::processes
