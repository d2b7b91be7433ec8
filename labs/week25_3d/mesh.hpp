// Exercise 25.1: the mesh. Ranks get three coordinates, one for each way to divide the work, and a group of peers along
// each axis. Which ranks are neighbours on which axis decides what link their messages take.
//
// Shoeybi et al., "Megatron-LM" (arXiv 1909.08053), section 3; Narayanan et al. (arXiv 2104.04473), section 3: tensor
// parallelism inside the node, pipelines and replicas across.
#pragma once

#include <array>
#include <cstdint>

#include "common/rank.hpp"
#include "common/runtime/machine/machine.hpp"

namespace lockstep::week25 {

/// Replicas that average gradients (weeks 21, 22), ranks that share every layer (23), stages (24).
enum class Axis : std::uint8_t { dp, tp, pp };

/// A number for each axis.
template <int Default>
struct PerAxis {
  int dp = Default, tp = Default, pp = Default;

  int& operator[](Axis axis) { return axis == Axis::dp ? dp : axis == Axis::tp ? tp : pp; }
  int operator[](Axis axis) const { return axis == Axis::dp ? dp : axis == Axis::tp ? tp : pp; }
  bool operator==(const PerAxis&) const = default;
  int ranks() const requires(Default == 1) { return dp * tp * pp; }
};
using MeshShape = PerAxis<1>;   ///< ranks along each axis, each ≥ 1
using Coordinate = PerAxis<0>;  ///< 0 … shape − 1 on each axis

/// The axes from the innermost, on which neighbours are neighbouring ranks, to the outermost.
using AxisOrder = std::array<Axis, 3>;
inline constexpr AxisOrder kMegatronOrder = {Axis::tp, Axis::dp, Axis::pp};

// Part a: placement is arithmetic. The two are each other's inverse.

/// The rank at `at`: ranks count along the innermost axis first, like digits of a number whose last digit is order[0].
int rank_of(const MeshShape& shape, const AxisOrder& order, const Coordinate& at);
/// Where `rank`, 0 … shape.ranks() − 1, is.
Coordinate coordinate_of(const MeshShape& shape, const AxisOrder& order, int rank);

// Part b: the groups.

struct Mesh {
  MeshShape shape;
  AxisOrder order = kMegatronOrder;
  Coordinate here;  ///< of this rank
  Rank world;
  Rank dp, tp, pp;  ///< the ranks that differ from this one on that axis alone, by their coordinate on it
};
/// Collective over `world`, at set-up. A shape that does not have world.size() ranks is a USAGE error that names both.
Mesh make_mesh(Rank world, const MeshShape& shape, const AxisOrder& order = kMegatronOrder);

// Part c: what a placement costs.

/// The outermost link level of `machine` between two neighbours of a ring on `axis`, of any of its groups: the ring
/// runs at the pace of its slowest link. −1 where groups have one rank. Rings go from each coordinate to the next, and
/// from the last to the first.
int slowest_level(const Machine& machine, const MeshShape& shape, const AxisOrder& order, Axis axis);

}  // namespace lockstep::week25
