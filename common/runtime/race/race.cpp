#include "common/runtime/race/race.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

void VectorClock::tick(int component) {
  if (static_cast<std::size_t>(component) >= ticks_.size()) ticks_.resize(component + 1);
  ++ticks_[component];
}

void VectorClock::join(const VectorClock& other) {
  if (ticks_.size() < other.ticks_.size()) ticks_.resize(other.ticks_.size());
  for (std::size_t i = 0; i < other.ticks_.size(); ++i) ticks_[i] = std::max(ticks_[i], other.ticks_[i]);
}

int RaceDetector::add_component() {
  const int component = static_cast<int>(clocks_.size());
  clocks_.emplace_back();
  clocks_.back().tick(component);
  return component;
}

void RaceDetector::access(int queue, const Slice& slice, bool write, Location where, const char* what, Moment moment) {
  touch(clock(queue), slice, write, {queue, clock(queue).of(queue), false, moment.position, moment.time, where, what});
}

const VectorClock& RaceDetector::start(int queue, int endpoint, std::span<const Transfer> transfers, Location where,
                                       Moment moment) {
  // Batches of an endpoint follow one another, so its clock continues from batch to batch.
  clock(endpoint).join(clock(queue));
  clock(endpoint).tick(endpoint);
  const VectorClock& batch = clock(endpoint);
  for (const auto& [kind, peer, slice] : transfers) {
    const bool receives = kind == Transfer::Kind::receive;
    touch(batch, slice, receives,
          {endpoint, batch.of(endpoint), true, moment.position, moment.time, where,
           receives ? "a receive started" : "a send started", slice.offset_bytes(),
           slice.offset_bytes() + slice.bytes()});
  }
  clock(queue).tick(queue);
  return batch;
}

VectorClock RaceDetector::fork(int queue) {
  VectorClock from = clock(queue);
  clock(queue).tick(queue);
  return from;
}

VectorClock RaceDetector::end(int queue) {
  VectorClock finished = clock(queue);
  clock(queue).tick(queue);
  return finished;
}

void RaceDetector::forget(Block& block) {
  delete static_cast<History*>(block.history);
  block.history = nullptr;
}

void RaceDetector::History::insert(std::size_t index, std::size_t begin, Segment segment) {
  segments.push_back(std::move(segment));
  places.insert(places.begin() + static_cast<std::ptrdiff_t>(index), {begin, &segments.back()});
}

std::size_t RaceDetector::split(History& history, std::size_t at) {
  const auto& places = history.places;
  const auto after = std::partition_point(places.begin(), places.end(), [at](const auto& p) { return p.begin < at; });
  const auto index = static_cast<std::size_t>(after - places.begin());
  if (index == 0 || (after != places.end() && after->begin == at)) return index;
  Segment& before = *places[index - 1].segment;
  if (before.end > at) {
    history.insert(index, at, before);
    before.end = at;
  }
  return index;
}

void RaceDetector::touch(const VectorClock& clock, const Slice& slice, bool write, const Touch& now) {
  if (slice.empty()) return;
  Block& block = *slice.block();
  if (!block.history) block.history = new History;
  History& history = *static_cast<History*>(block.history);
  const std::size_t begin = slice.offset_bytes(), end = begin + slice.bytes();
  std::size_t at = split(history, begin), covered = begin;
  while (covered < end) {
    if (at == history.places.size() || history.places[at].begin > covered) {  // never used before
      const std::size_t until = at == history.places.size() ? end : std::min(end, history.places[at].begin);
      history.insert(at, covered, {until, {}, {}});
    } else if (history.places[at].segment->end > end) {
      split(history, end);
    }
    Segment& segment = *history.places[at].segment;
    const Again again{slice, covered, segment.end, now, write};
    check(clock, segment.write, true, again);
    if (write) {
      for (const Touch& read : segment.reads) check(clock, read, false, again);
      segment.write = now;
      segment.reads.clear();
    } else {
      auto same = std::find_if(segment.reads.begin(), segment.reads.end(),
                               [&](const Touch& read) { return read.component == now.component; });
      if (same == segment.reads.end())
        segment.reads.push_back(now);
      else
        *same = now;
    }
    covered = segment.end;
    ++at;
  }
}

void RaceDetector::check(const VectorClock& clock, const Touch& before, bool wrote, const Again& again) {
  if (before.component < 0) return;
  const Touch& now = again.now;
  const bool same_batch = before.batch && before.component == now.component && before.tick == now.tick;
  if (!same_batch && clock.of(before.component) >= before.tick) return;
  const Block& block = *again.slice.block();
  const auto access = [](const Touch& touch, bool write) {
    return TraceAccess{touch.component, touch.position, touch.time, write, touch.what, describe(touch.where)};
  };
  found_ = TraceRace{.block = block.id,
                     .offset = again.begin,
                     .bytes = again.end - again.begin,
                     .category = std::string(to_string(block.category)),
                     .allocated = describe(block.where),
                     .first = access(before, wrote),
                     .second = access(now, again.write)};
  const bool same_part = same_batch && before.begin == now.begin && before.end == now.end;
  const char* fix =
      same_part ? "Both transfers of this batch name the same part of the array: are their indices right? If they are, "
                  "receive into another slice, because transfers of one batch run at the same time."
      : same_batch
          ? "Transfers of one batch run at the same time: use two batches, or two slices."
          : "Wait for the ticket of the earlier one first. It is what `start` or `run` returned; waiting for an empty "
            "Ticket does nothing. If your code waits for it, does a closure capture a slice by reference, as [&] does?";
  throw Error(Verdict::race, fmt::format("RACE: {} at {} {} memory that {} at {} {}, and nothing orders the two. {} "
                                         "(The memory: {} bytes of a slice for {}, allocated at {}.)",
                                         now.what, describe(now.where), again.write ? "writes" : "reads", before.what,
                                         describe(before.where), wrote ? "writes" : "reads", fix, again.slice.bytes(),
                                         to_string(again.slice.category()), describe(block.where)));
}

}  // namespace lockstep
