#include "common/runtime/run.hpp"

namespace lockstep {

const Outcome& Outcome::check() const {
  if (!passed()) throw Error(verdict, message);
  return *this;
}

void note_end(Outcome& outcome) {
  Trace& trace = outcome.trace;
  trace.verdict = to_string(outcome.verdict);
  trace.message = outcome.message;
  trace.stopped = !outcome.passed() && outcome.verdict != Verdict::unread;  // UNREAD is found only after the end
  trace.failed_rank = outcome.failed_rank;
  trace.totals.clear();
  for (const RankLedger& ledger : outcome.ledgers) {
    TraceTotals& totals = trace.totals.emplace_back();
    totals.rank = static_cast<int>(trace.totals.size()) - 1;
    totals.seconds = ledger.seconds;
    totals.messages_sent = ledger.traffic.messages_sent;
    totals.bytes_sent = ledger.traffic.bytes_sent;
    for (std::size_t q = 0; q < ledger.queues.size(); ++q)
      (q == 0 ? totals.busy : totals.busy_elsewhere) += ledger.queues[q].busy;
    if (!ledger.queues.empty()) totals.waiting = ledger.queues[0].waiting;
  }
}

}  // namespace lockstep
