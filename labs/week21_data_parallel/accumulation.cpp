// Exercise 21.6: gradient accumulation. Read labs/week21_data_parallel/accumulation.hpp first.
#include "labs/week21_data_parallel/accumulation.hpp"

#include <algorithm>
#include <cmath>

#include "common/arithmetic.hpp"

namespace lockstep::week21 {

std::vector<Microbatch> microbatches(std::size_t samples, std::size_t largest) {
  std::vector<Microbatch> parts;
  for (std::size_t first = 0; first < samples; first += largest)
    parts.push_back({first, std::min(largest, samples - first)});
  return parts;
}

void accumulate_gradients(Rank me, Slice gradients, const std::vector<Microbatch>& parts,
                          const WeightedBackward& backward) {
  todo("21.6",
       "`gradients` become those of one batch of all samples, whatever they were before. backward adds those of a "
       "microbatch, times a weight");
}

double relative_gap(Rank me, Slice a, Slice b) {
  todo("21.6", "|a − b| / |b| over all elements. A host reads only single numbers; neither slice changes");
}

}  // namespace lockstep::week21
