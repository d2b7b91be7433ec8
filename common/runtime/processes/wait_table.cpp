#include "common/runtime/processes/wait_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "common/runtime/wait_chain.hpp"

namespace lockstep::processes {

namespace {

/// Finds the other halves of transfers.
class Halves {
 public:
  explicit Halves(std::span<const Row> rows) : begun_(rows.size()) {
    for (std::size_t rank = 0; rank < rows.size(); ++rank)
      for (const Begun& begun : rows[rank].begun) begun_[rank][{begun.endpoint, begun.peer}] = &begun;
  }
  /// True if the peer of `transfer`, a transfer of `rank`, has not begun its half.
  bool lacks_partner(int rank, const Unfinished& transfer) const {
    const auto& of_peer = begun_[transfer.peer];
    auto at = of_peer.find({transfer.endpoint, rank});
    if (at == of_peer.end()) at = of_peer.find({transfer.endpoint, -1});
    if (at == of_peer.end()) return true;
    const bool sends = transfer.kind == Unfinished::Kind::send;
    return (sends ? at->second->receives : at->second->sends) < transfer.number;
  }

 private:
  std::vector<std::map<std::pair<std::uint64_t, int>, const Begun*>> begun_;
};

/// True if each of the rank's endpoints waits for a half that only a rank in `still` could begin.
bool is_stuck(int rank, const Row& row, const Halves& halves, const std::vector<bool>& still) {
  std::map<std::uint64_t, bool> endpoints;
  for (const Unfinished& transfer : row.unfinished)
    endpoints[transfer.endpoint] |= still[transfer.peer] && halves.lacks_partner(rank, transfer);
  return !endpoints.empty() &&
         std::all_of(endpoints.begin(), endpoints.end(), [](const auto& endpoint) { return endpoint.second; });
}

/// True if the peer of `missing`, a send or receive of `rank`, has begun its half where only another transfer of `rank`
/// would meet it: on another queue or in another group. A small send may have ended there, in MPI's buffer. A peer that
/// also waits elsewhere may begin the right half later.
bool is_astray(int rank, const Unfinished& missing, const Row& peer, const Halves& halves) {
  const bool sent = missing.kind == Unfinished::Kind::receive;
  return missing.kind != Unfinished::Kind::set_up &&
         std::any_of(peer.begun.begin(), peer.begun.end(), [&](const Begun& half) {
           const auto elsewhere = [&](const Unfinished& other) { return other.endpoint != half.endpoint; };
           const Unfinished last{half.endpoint, rank, sent ? Unfinished::Kind::send : Unfinished::Kind::receive,
                                 sent ? half.sends : half.receives, /*before=*/0};
           return half.peer == rank && half.endpoint != missing.endpoint && last.number > 0 &&
                  std::none_of(peer.unfinished.begin(), peer.unfinished.end(), elsewhere) &&
                  halves.lacks_partner(missing.peer, last);
         });
}

/// Says which message is meant, if a batch has several with one peer; the first needs no number.
std::string which_message(const Unfinished& missing) {
  if (missing.before == 0) return "";
  return fmt::format(": message {} of this batch {} it", missing.before + 1,
                     missing.kind == Unfinished::Kind::send ? "to" : "from");
}

}  // namespace

std::uint64_t endpoint_id(std::span<const int> members, const std::string& queue) {
  return std::hash<std::string>{}(std::string(reinterpret_cast<const char*>(members.data()), members.size_bytes()) +
                                  queue);
}

std::vector<int> deadlocked(std::span<const Row> rows) {
  const int count = static_cast<int>(rows.size());
  const Halves halves(rows);
  std::vector<bool> still(count);  // stuck, as far as is known
  for (int rank = 0; rank < count; ++rank)
    still[rank] =
        rows[rank].counted && (rows[rank].state == Row::State::waiting || rows[rank].state == Row::State::finished);
  for (bool changed = true; changed;) {
    changed = false;
    for (int rank = 0; rank < count; ++rank) {
      if (!still[rank] || rows[rank].state == Row::State::finished || is_stuck(rank, rows[rank], halves, still))
        continue;
      still[rank] = false;
      changed = true;
    }
  }
  std::vector<int> stuck;
  for (int rank = 0; rank < count; ++rank)
    if (still[rank] && rows[rank].state == Row::State::waiting) stuck.push_back(rank);
  return stuck;
}

bool same(const Row& before, const Row& now) {
  return before.state == now.state && before.activity == now.activity && before.begun == now.begun &&
         before.unfinished == now.unfinished;
}

void explain_deadlock(std::vector<Row>& rows, std::span<const int> stuck) {
  const Halves halves(rows);
  for (Row& row : rows) row.peer = -1;
  for (int rank : stuck) {
    const Unfinished* missing = nullptr;  // prefers receives, because a send may only be slow
    for (const Unfinished& transfer : rows[rank].unfinished) {
      const bool holds = rows[transfer.peer].state == Row::State::finished ||
                         std::find(stuck.begin(), stuck.end(), transfer.peer) != stuck.end();
      if (!holds || !halves.lacks_partner(rank, transfer)) continue;
      if (!missing || missing->kind == Unfinished::Kind::send) missing = &transfer;
    }
    if (!missing) continue;
    rows[rank].peer = missing->peer;
    if (is_astray(rank, *missing, rows[missing->peer], halves)) {
      rows[rank].words += fmt::format(
          " (rank {} has started the {} on another queue or in another group: only halves on one queue match)",
          missing->peer, missing->kind == Unfinished::Kind::send ? "receive" : "send");
      continue;
    }
    const char* what = missing->kind == Unfinished::Kind::send      ? "started the receive"
                       : missing->kind == Unfinished::Kind::receive ? "started the send"
                                                                    : "called it";
    rows[rank].words += fmt::format(" (rank {} has not {}{})", missing->peer, what, which_message(*missing));
  }
}

std::string who_waits(std::span<const Row> rows) {
  std::vector<Waiting> all;
  for (const Row& row : rows) {
    Waiting& one = all.emplace_back(Waiting{.rank = static_cast<int>(all.size())});
    if (row.state != Row::State::waiting || row.peer < 0) continue;
    const Row::State peer = rows[row.peer].state;
    if (peer == Row::State::waiting) one.needs = row.peer;
    if (peer == Row::State::waiting || peer == Row::State::finished) one.needs_rank = row.peer;
  }
  return lockstep::who_waits(all, find_chain(all));
}

std::string wait_table(const std::string& headline, std::span<const Row> rows) {
  std::string text = headline;
  for (std::size_t rank = 0; rank < rows.size(); ++rank)
    text += fmt::format("\n  rank {}: {}", rank, rows[rank].words.empty() ? "no answer" : rows[rank].words);
  return text;
}

Finding judge(std::span<const Row> rows, std::span<const std::uint64_t> last_activity, double timeout_seconds) {
  bool still = true, waiting = false, busy = false, same = true, counted = false;
  Finding finding;
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    const Row& row = rows[rank];
    finding.silent = finding.silent || row.state == Row::State::no_answer;
    waiting = waiting || row.state == Row::State::waiting;
    if (row.state == Row::State::working) {
      busy = true;
      same = same && row.activity == last_activity[rank];
    }
    counted = counted || row.counted;
    still = still && row.idle_seconds >= timeout_seconds / 2;
  }
  if (still && (busy || waiting) && (!busy || same))
    finding.verdict = busy || counted ? Verdict::timeout : Verdict::deadlock;
  return finding;
}

}  // namespace lockstep::processes
