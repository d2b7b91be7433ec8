#include "labs/trainer/refusals.hpp"

#include <fmt/format.h>

#include "common/support/text/counted.hpp"
#include "labs/week24_pipeline/schedules_by_name.hpp"

namespace lockstep::week25 {

std::optional<Refusal> wrong_shape(const GptConfig& model, std::size_t sequence, const Strategy& s) {
  const std::size_t cut = 2 * static_cast<std::size_t>(s.cp);
  if (s.cp > 1 && sequence % cut != 0)
    return Refusal{"the sequence does not divide over cp",
                   fmt::format("{} tokens do not divide into {} chunks, two for each of cp {}", sequence, cut, s.cp)};
  if (s.cp > 1 && model.attention != AttentionKind::flash)
    return Refusal{
        "context parallelism with materialised attention",
        fmt::format("cp {}: ring attention merges partial results, so no rank ever has all probabilities of a row",
                    s.cp)};
  const std::size_t parts = static_cast<std::size_t>(s.pp) * static_cast<std::size_t>(s.chunks);
  if (model.layers + 2 < parts)
    return Refusal{"more parts of the pipeline than layers",
                   fmt::format("{} layers, embedding and head cannot fill {} parts (pp {} × {} chunk{})", model.layers,
                               parts, s.pp, s.chunks, s.chunks == 1 ? "" : "s"),
                   fmt::format(": each needs one; use {} layers or more, or fewer stages{}", parts - 2,
                               s.chunks == 1 ? "" : " or chunks")};
  return std::nullopt;
}

std::optional<Refusal> wrong_schedule(const Strategy& s, int m) {
  const bool halves = week24::splits_backwards(s.schedule), vee = week24::in_a_vee(s.schedule);
  if (vee && s.chunks != 2)
    return Refusal{"a V without two chunks",
                   fmt::format("{} has two chunks per stage, one on each leg of the V, not {}", s.schedule, s.chunks)};
  if (s.chunks > 1 && s.schedule != "interleaved" && !vee)
    return Refusal{"chunks without interleaving",
                   fmt::format("{} has one chunk per stage, not {}", s.schedule, s.chunks),
                   ": only interleaved has more"};
  if (s.schedule == "interleaved" && m % s.pp != 0)
    return Refusal{
        "interleaving needs whole groups of microbatches",
        fmt::format("{} {} not a multiple of pp {}", counted(m, "microbatch"), m == 1 ? "is" : "are", s.pp),
        fmt::format(": interleaved schedules need groups of as many microbatches as there are stages; use {}",
                    (m + s.pp - 1) / s.pp * s.pp)};
  if (halves && s.tp > 1)
    return Refusal{"zero bubble with tensor parallelism",
                   fmt::format("{} with tp {}: the layers hide their all-reduces behind the weight gradients, which "
                               "therefore cannot be delayed",
                               s.schedule, s.tp),
                   "; use 1f1b"};
  if (halves && s.cp > 1)
    return Refusal{
        "zero bubble with context parallelism",
        fmt::format("{} with cp {}: its split backward pass needs layers that no ranks share", s.schedule, s.cp),
        "; use 1f1b"};
  if (halves && (s.recompute || s.selective))
    return Refusal{
        "zero bubble with recomputation",
        s.schedule +
            " with recomputation: the delayed weight gradients would need the activations that recomputation frees"};
  return std::nullopt;
}

std::optional<Refusal> wrong_sharding(const GptConfig& model, const Strategy& s, int group) {
  if (s.sequence_parallel && s.tp == 1)
    return Refusal{"sequence parallelism without tensor parallelism",
                   "sequence parallelism with tp 1 has no rows to shard"};
  if (s.zero > 1 && s.pp > 1)
    return Refusal{"ZeRO-2 and 3 with a pipeline",
                   fmt::format("ZeRO-{} with a pipeline would {} for every microbatch, m times the traffic of ZeRO-1 "
                               "for memory that the stages have divided already",
                               s.zero, s.zero == 2 ? "reduce all gradients" : "gather all parameters twice"),
                   "; use ZeRO-1"};
  if (s.zero > 1 && model.gradients() != model.storage)
    return Refusal{"ZeRO-2 and 3 with fp32 gradients",
                   fmt::format("ZeRO-{} with fp32 gradients: a unit's gradients have the type of its parameters until "
                               "they are reduced",
                               s.zero),
                   "; use ZeRO-0 or 1"};
  if (group < 0 || (group > 0 && s.dp % group != 0))
    return Refusal{"groups that hold the state do not divide dp",
                   fmt::format("{} ranks along dp do not divide into groups of {} that each hold one copy of the state",
                               s.dp, group)};
  return std::nullopt;
}

}  // namespace lockstep::week25
