#include "common/runtime/ledger/recorder.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

void Recorder::add_queue(const std::string& name) {
  queues_.emplace_back();
  queues_.back().name = name;
}

void Recorder::allocated(int queue, Category category, std::uint64_t bytes) {
  Usage& usage = queues_[queue].memory;
  const int c = static_cast<int>(category);
  usage.peak[c] = std::max(usage.peak[c], usage.live[c] += bytes);
  usage.peak_total = std::max(usage.peak_total, usage.live_total += bytes);
}

void Recorder::released(int queue, Category category, std::uint64_t bytes) {
  Usage& usage = queues_[queue].memory;
  usage.live[static_cast<int>(category)] -= bytes;
  usage.live_total -= bytes;
}

void Recorder::busy(int queue, double begin, double end, const char* name, double flop, Location where,
                    std::uint64_t position, TraceCompute work) {
  PerQueue& q = queues_[queue];
  q.flop += flop;
  q.busy += end - begin;
  q.end = std::max(q.end, end);
  if (trace_) events_.push_back({std::move(work), rank_, queue, name, describe(where), begin, end, position, position});
}

std::vector<TraceUse> Recorder::uses_of(const Operation& operation) const {
  constexpr std::uint64_t kSmall = 4096;
  std::vector<TraceUse> uses;
  if (!trace_) return uses;
  const auto add = [&](const auto& slices, bool writes) {
    for (const Slice* slice : slices)
      if (slice && !slice->empty()) uses.push_back({slice->block()->id, slice->offset_bytes(), slice->bytes(), writes});
  };
  add(operation.reads, false);
  add(operation.writes, true);
  const auto large = [](const TraceUse& use) { return use.bytes > kSmall; };
  if (std::any_of(uses.begin(), uses.end(), large)) return {};
  return uses;
}

void Recorder::block_made(const Block& block, double now) {
  if (!trace_) return;
  if (blocks_.size() < block.id) blocks_.resize(block.id);  // queues with threads of their own may arrive out of order
  blocks_[block.id - 1] = {.rank = rank_,
                           .id = block.id,
                           .category = std::string(to_string(block.category)),
                           .bytes = block.bytes,
                           .begin = now};
}

void Recorder::uploaded(const Slice& slice) {
  if (!slice.empty() && knows(*slice.block())) blocks_[slice.block()->id - 1].uploaded = true;
}

void Recorder::waited(int queue, double begin, double end, Location where, std::uint64_t position) {
  PerQueue& q = queues_[queue];
  q.waiting += end - begin;
  q.end = std::max(q.end, end);
  if (trace_ && end > begin)
    events_.push_back({TraceWait{}, rank_, queue, "wait", describe(where), begin, end, position, position});
}

namespace {
std::uint64_t bytes_in(std::span<const Transfer> batch) {
  std::uint64_t bytes = 0;
  for (const Transfer& transfer : batch) bytes += transfer.slice.bytes();
  return bytes;
}
}  // namespace

void Recorder::transferred(int queue, int group, double begin, double end, std::span<const Transfer> batch,
                           Location where, const char* region) {
  transferred(queue, group, begin, end, batch.size(), trace_ ? bytes_in(batch) : 0, where, region);
}

void Recorder::transferred(int queue, int group, double begin, double end, std::size_t transfers, std::uint64_t bytes,
                           Location where, const char* region) {
  PerQueue& q = queues_[queue];
  q.transferring += std::max(0.0, end - std::max(begin, q.transferring_until));
  q.transferring_until = std::max(q.transferring_until, end);
  q.end = std::max(q.end, end);
  if (!trace_) return;
  notes_->transferred(queue, group, events_.size());
  events_.push_back(
      {TraceTransfer{}, rank_, queue,
       fmt::format("{}{} transfers, {} bytes", region ? std::string(region) + ": " : "", transfers, bytes),
       describe(where), begin, end});
}

void Recorder::open_region(int queue, const char* name, std::size_t bytes, double now, Location where) {
  PerQueue& q = queues_[queue];
  const auto same =
      std::find_if(q.totals.begin(), q.totals.end(), [&](const RegionTotal& t) { return t.name == name; });
  const int index = static_cast<int>(same - q.totals.begin());
  if (same == q.totals.end()) {
    q.names.push_back(name);
    q.totals.push_back({.name = name, .queue = queue, .phase = bytes == static_cast<std::size_t>(-1)});
  }
  RegionTotal& total = q.totals[index];
  ++total.visits;
  if (!total.phase) total.bytes += bytes;
  q.open.push_back({index, now, where});
  find_innermost(q);
  if (notes_) notes_->region_opened(queue, {.phase = total.phase, .bytes = total.phase ? 0 : bytes});
}

void Recorder::close_region(int queue, double now) {
  const double begin = queues_[queue].open.back().begin;
  region_lasted(queue, leave_region(queue), begin, now);
}

int Recorder::leave_region(int queue) {
  PerQueue& q = queues_[queue];
  const int region = q.open.back().total;
  q.open.pop_back();
  find_innermost(q);
  if (notes_) notes_->region_closed(queue);
  return region;
}

void Recorder::region_lasted(int queue, int region, double begin, double end) {
  PerQueue& q = queues_[queue];
  q.totals[region].seconds += end - begin;
  if (!trace_) return;
  const ProgramNotes::Range range = notes_->region_lasted(queue);
  events_.push_back({range.region, rank_, queue, q.totals[region].name, "", begin, end, range.first, range.last});
}

void Recorder::find_innermost(PerQueue& q) {
  q.innermost = q.open.empty() ? -1 : q.open.back().total;
  q.collective = nullptr;
  for (auto open = q.open.rbegin(); open != q.open.rend() && !q.collective; ++open)
    if (!q.totals[open->total].phase) q.collective = q.names[open->total];
}

const char* Recorder::batch_started(int queue, int group, std::span<const int> members,
                                    std::span<const Transfer> batch) {
  PerQueue& q = queues_[queue];
  if (notes_) notes_->batch_started(queue, group, members, batch);
  ++q.batches;
  if (q.innermost < 0) return q.collective;
  RegionTotal& total = q.totals[static_cast<std::size_t>(q.innermost)];
  ++total.batches;
  for (const Transfer& transfer : batch) {
    const bool sends = transfer.kind == Transfer::Kind::send;
    ++(sends ? total.traffic.messages_sent : total.traffic.messages_received);
    (sends ? total.traffic.bytes_sent : total.traffic.bytes_received) += transfer.slice.bytes();
  }
  return q.collective;
}

std::string Recorder::regions_of(int queue, const char* collective, Location where) const {
  const PerQueue& q = queues_[static_cast<std::size_t>(queue)];
  if (q.collective != collective) return collective ? fmt::format(" in region \"{}\"", collective) : "";
  std::string text;
  std::string_view file = where.file_name();
  for (std::size_t i = q.open.size(); i-- > 0;) {
    const Open& open = q.open[i];
    text += fmt::format(" in region \"{}\"", q.totals[static_cast<std::size_t>(open.total)].name);
    if (file != open.where.file_name()) text += ", opened at " + describe(open.where);
    file = open.where.file_name();
  }
  return text;
}

Trace Recorder::take_trace() {
  Trace trace;
  if (!notes_) return trace;
  notes_->complete(events_, trace.closures);
  trace.events = std::move(events_);
  trace.blocks = std::move(blocks_);
  trace.races = std::move(races_);
  return trace;
}

RankLedger Recorder::ledger() const {
  RankLedger ledger;
  ledger.reads = reads_;
  for (const PerQueue& q : queues_) {
    ledger.batches += q.batches;
    ledger.flop += q.flop;
    for (int c = 0; c < kCategories; ++c) {
      ledger.memory.live[c] += q.memory.live[c];
      ledger.memory.peak[c] += q.memory.peak[c];
    }
    ledger.memory.peak_total += q.memory.peak_total;
    ledger.queues.push_back({q.name, q.busy, q.waiting, q.transferring, q.end});
    ledger.regions.insert(ledger.regions.end(), q.totals.begin(), q.totals.end());
  }
  return ledger;
}

}  // namespace lockstep
