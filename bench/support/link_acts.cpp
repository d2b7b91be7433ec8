#include "bench/support/link_acts.hpp"

#include <algorithm>
#include <vector>

#include "bench/support/measure.hpp"
#include "common/arithmetic.hpp"
#include "common/support/stats/stats.hpp"

namespace lockstep::bench {

Slice filled(Rank me, std::size_t elements, DType dtype) {
  Slice slice = me.allocate(elements, dtype, Category::buffer);
  fill(me, slice, 0);
  return slice;
}

Values timed_samples(Rank me, const Tokens& tokens, const Timed& act, int repeats) {
  Values samples;
  const bool is_virtual = time_is_virtual();
  barrier(me, tokens.sent, tokens.received);
  act();
  if (is_virtual) repeats = 4;  // averages over messages that are in flight together
  for (int sample = 0; sample < (is_virtual ? 1 : kLinkSamples); ++sample) {
    if (!is_virtual) barrier(me, tokens.sent, tokens.received);
    const double begin = me.now();
    for (int repeat = 0; repeat < repeats; ++repeat) act();
    samples.push_back((me.now() - begin) / repeats);
  }
  samples.resize(kLinkSamples, samples.front());
  return samples;
}

double median_of_slowest(const Outcome& outcome, std::size_t first) {
  std::vector<double> samples(kLinkSamples);
  for (std::size_t sample = 0; sample < samples.size(); ++sample)
    for (const Values& of_rank : outcome.values) samples[sample] = std::max(samples[sample], of_rank[first + sample]);
  return median(samples).value;
}

Slice InTurn::next() {
  if (first_ + elements_ > whole_.size()) first_ = 0;
  first_ += elements_;
  return whole_.cut(first_ - elements_, elements_);
}

LinkActs::LinkActs(Rank me, std::size_t elements)
    : me_(me),
      last_(me.size() - 1),
      peer_(last_ - me.rank()),
      talks_(me.size() > 1 && (me.rank() == 0 || me.rank() == last_)),
      here_(filled(me, elements)),
      there_(filled(me, elements)),
      tokens_{filled(me, 2), filled(me, 2)} {}

Timed LinkActs::exchanges(std::size_t n) const {
  return [me = me_, talks = talks_, peer = peer_, from = here_.cut(0, n), to = there_.cut(0, n)]() mutable {
    if (talks) me.exchange({send(peer, from), receive(peer, to)});
    std::swap(from, to);
  };
}

Timed LinkActs::cold_exchanges(std::size_t n) const {
  return [me = me_, talks = talks_, peer = peer_, from = InTurn(here_, n), to = there_.cut(0, n)]() mutable {
    if (talks) me.exchange({send(peer, from.next()), receive(peer, to)});
  };
}

Timed LinkActs::there_and_back(std::size_t n) const {
  return
      [me = me_, talks = talks_, peer = peer_, last = last_, from = here_.cut(0, n), to = there_.cut(0, n)]() mutable {
        if (talks && me.rank() == 0) me.exchange({send(peer, from)});
        if (talks) me.exchange({receive(peer, to)});
        if (talks && me.rank() == last) me.exchange({send(peer, from)});
        std::swap(from, to);
      };
}

Timed LinkActs::additions(std::size_t n) const {
  return [me = me_, y = here_.cut(0, n), x = there_.cut(0, n)] { add(me, y, x); };
}

Timed LinkActs::cold_additions(std::size_t n) const {
  return [me = me_, y = InTurn(here_, n), x = there_.cut(0, n)]() mutable { add(me, y.next(), x); };
}

Timed LinkActs::additions_within(std::size_t n, std::size_t within) const {
  return [me = me_, y = InTurn(here_.cut(0, within), n), x = there_.cut(0, n)]() mutable { add(me, y.next(), x); };
}

Timed LinkActs::copies(std::size_t n) const {
  return [me = me_, to = there_.cut(0, n), from = here_.cut(0, n)] { copy(me, to, from); };
}

}  // namespace lockstep::bench
