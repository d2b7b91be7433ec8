#include "bench/programs/collective_kinds.hpp"

#include "common/arithmetic.hpp"
#include "common/chunk.hpp"
#include "common/support/stats/mix.hpp"

namespace lockstep::bench {
namespace {

/// Rank `rank`'s input value at `element`: below 2^20, exact in fp32, rarely the same twice.
float held(int rank, std::size_t element) {
  return static_cast<float>(mix(static_cast<std::uint64_t>(rank) << 40 | element) % (1U << 20U));
}

/// A value for sums: one part for the rank and one for the element, so small that any order gives the same sum for up
/// to 2^14 ranks.
int of_rank(int rank) { return static_cast<int>(mix(static_cast<std::uint64_t>(rank)) % 512); }
int of_place(std::size_t element) { return static_cast<int>(mix(~static_cast<std::uint64_t>(element)) % 512); }

std::vector<float> inputs(Rank me, Collective collective, std::size_t count) {
  const bool added = collective == Collective::reduce_scatter || collective == Collective::all_reduce;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = added ? static_cast<float>(of_rank(me.rank()) + of_place(i)) : held(me.rank(), i);
  return values;
}

std::vector<float> expected(Rank me, Collective collective, std::size_t count) {
  const auto p = static_cast<std::size_t>(me.size()), r = static_cast<std::size_t>(me.rank());
  const std::size_t part = count / p;  // length of one rank's part, if every rank contributes one
  int of_ranks = 0;
  for (int rank = 0; rank < me.size(); ++rank) of_ranks += of_rank(rank);
  const auto value = [&](std::size_t i) {
    switch (collective) {
      case Collective::all_reduce: return static_cast<float>(of_ranks + me.size() * of_place(i));
      case Collective::reduce_scatter: return static_cast<float>(of_ranks + me.size() * of_place(r * count + i));
      case Collective::all_gather: return held(static_cast<int>(i / part), i % part);
      case Collective::broadcast: return held(0, i);
      case Collective::all_to_all: return held(static_cast<int>(i / part), r * part + i % part);
    }
    usage_error("no such collective");
  };
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value(i);
  return values;
}

}  // namespace

const std::vector<Collective>& other_collectives() {
  static const std::vector<Collective> all{Collective::reduce_scatter, Collective::all_gather, Collective::broadcast,
                                           Collective::all_to_all};
  return all;
}

const char* name_of(Collective collective) {
  switch (collective) {
    case Collective::all_reduce: return "all_reduce";
    case Collective::reduce_scatter: return "reduce_scatter";
    case Collective::all_gather: return "all_gather";
    case Collective::broadcast: return "broadcast";
    case Collective::all_to_all: return "all_to_all";
  }
  return "";
}

Arrays allocate_arrays(Rank me, Collective collective, bool in_place, std::size_t elements) {
  const auto allocate = [&](std::size_t count) { return me.allocate(count, DType::f32, Category::buffer); };
  const std::size_t part = elements / static_cast<std::size_t>(me.size());
  const Slice whole = allocate(elements), mine = chunk(whole, me.rank(), me.size());
  switch (collective) {
    case Collective::reduce_scatter: return {whole, in_place ? mine : allocate(part)};
    case Collective::all_gather: return {in_place ? mine : allocate(part), whole};
    case Collective::all_reduce:
    case Collective::broadcast: return {whole, whole};
    case Collective::all_to_all: return {whole, allocate(elements)};
  }
  usage_error("no such collective");
}

void upload_inputs(Rank me, Collective collective, const Arrays& arrays) {
  fill(me, arrays.to, -1);
  if (collective != Collective::broadcast || me.rank() == 0)
    upload(me, arrays.from, inputs(me, collective, arrays.from.size()));
}

bool has_result(Rank me, Collective collective, const Arrays& arrays) {
  return to_host(me, arrays.to) == expected(me, collective, arrays.to.size());
}

Prepared prepare_collective(Rank me, Purpose purpose, Collective collective, const CollectiveAlgorithm& algorithm,
                            std::size_t elements) {
  const Arrays arrays = allocate_arrays(me, collective, algorithm.in_place, elements);
  if (purpose == Purpose::verify) {
    upload_inputs(me, collective, arrays);
  } else {
    fill(me, arrays.from, 0);
    if (collective != Collective::all_reduce) fill(me, arrays.to, 0);  // there it is the same
  }
  const Act act = algorithm.set_up ? algorithm.set_up(me) : algorithm.act;
  return {.act = [=] { act(me, arrays); }, .right = [=] { return has_result(me, collective, arrays); }};
}

}  // namespace lockstep::bench
