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
/// The place of `rank`, 0 … shape.ranks() − 1, in the mesh.
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

// Part d: axes that have no ranks of their own. Ranks that share a sequence (cp, 23.6) or a set of experts (ep, 23.7)
// are replicas for all the rest of the model, so these axes divide dp: `size` neighbours on it belong together.

struct AxisParts {
  Rank inside;  ///< `size` neighbours on the axis, this rank among them, in the axis's order
  Rank across;  ///< the ranks at this rank's place among their neighbours, in the axis's order
};
/// Collective over `axis`, a group of make_mesh, at set-up. The axis has a multiple of `size` ranks, size ≥ 1; another
/// size is a USAGE error that names both.
AxisParts divide_axis(Rank axis, int size);

/// slowest_level of the rings of `size` neighbours on `axis`, of which shape[axis] is a multiple; −1 for size 1.
int slowest_level_inside(const Machine& machine, const MeshShape& shape, const AxisOrder& order, Axis axis, int size);

}  // namespace lockstep::week25
