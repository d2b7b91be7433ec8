// Gradients with few large elements, as compression meets them.
#pragma once

#include <cstddef>

namespace lockstep::bench {

/// Element `element` of rank `rank`'s gradient, which has few large elements: a part that all ranks share and one of
/// its own, each with Pareto tails, P(|x| > t) = (1 + t)^−3.
float heavy_tailed(int rank, std::size_t element);

}  // namespace lockstep::bench
