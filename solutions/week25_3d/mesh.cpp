// Exercise 25.1: the mesh. Read labs/week25_3d/mesh.hpp first.
#include "labs/week25_3d/mesh.hpp"

#include <algorithm>
#include <string>

namespace lockstep::week25 {

int rank_of(const MeshShape& shape, const AxisOrder& order, const Coordinate& at) {
  // lab 25.1a begin: a step on the innermost axis is one rank; on the next axis as many as there are on the innermost;
  // and so on
  int rank = 0, stride = 1;
  for (Axis axis : order) {
    rank += at[axis] * stride;
    stride *= shape[axis];
  }
  return rank;
  // lab end
}

Coordinate coordinate_of(const MeshShape& shape, const AxisOrder& order, int rank) {
  // lab 25.1a begin: and back: remainder and quotient, axis by axis
  Coordinate at;
  for (Axis axis : order) {
    at[axis] = rank % shape[axis];
    rank /= shape[axis];
  }
  return at;
  // lab end
}

namespace {

std::string words(const MeshShape& shape) {
  return "(dp, tp, pp) = (" + std::to_string(shape.dp) + ", " + std::to_string(shape.tp) + ", " +
         std::to_string(shape.pp) + ")";
}

/// The group of `here` along `axis`, of which every rank of `world` makes one.
Rank group_along(const Rank& world, const MeshShape& shape, const AxisOrder& order, Coordinate here, Axis axis) {
  // lab 25.1b begin: split the world. Ranks that differ only on this axis need one colour, which others do not have;
  // the key orders them along the axis
  const int along = here[axis];
  here[axis] = 0;
  return world.split(rank_of(shape, order, here), along);
  // lab end
}

}  // namespace

Mesh make_mesh(Rank world, const MeshShape& shape, const AxisOrder& order) {
  if (shape.dp < 1 || shape.tp < 1 || shape.pp < 1 || shape.ranks() != world.size())
    usage_error("a mesh of " + words(shape) + " has " + std::to_string(shape.ranks()) + " ranks, not " +
                std::to_string(world.size()));
  Mesh mesh{.shape = shape, .order = order, .here = {}, .world = world, .dp = {}, .tp = {}, .pp = {}};
  // lab 25.1b begin: where this rank is, and its three groups; every rank makes them in the same order
  mesh.here = coordinate_of(shape, order, world.rank());
  mesh.dp = group_along(world, shape, order, mesh.here, Axis::dp);
  mesh.tp = group_along(world, shape, order, mesh.here, Axis::tp);
  mesh.pp = group_along(world, shape, order, mesh.here, Axis::pp);
  return mesh;
  // lab end
}

int slowest_level(const Machine& machine, const MeshShape& shape, const AxisOrder& order, Axis axis) {
  int slowest = -1;
  if (shape[axis] == 1) return slowest;
  // lab 25.1c begin: for every rank its neighbour on the axis, and the level between them (machine.level_between);
  // keep the largest
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    Coordinate next = coordinate_of(shape, order, rank);
    next[axis] = (next[axis] + 1) % shape[axis];
    slowest = std::max(slowest, machine.level_between(rank, rank_of(shape, order, next)));
  }
  // lab end
  return slowest;
}

AxisParts divide_axis(Rank axis, int size) {
  if (size < 1 || axis.size() % size != 0)
    usage_error("an axis of " + std::to_string(axis.size()) + " ranks does not divide into parts of " +
                std::to_string(size));
  // lab 25.1d begin: two splits, which every rank makes in the same order: neighbours have the same quotient by `size`,
  // and ranks at the same place among their neighbours the same remainder
  const Rank inside = axis.split(axis.rank() / size, axis.rank());
  const Rank across = axis.split(axis.rank() % size, axis.rank());
  return {.inside = inside, .across = across};
  // lab end
}

int slowest_level_inside(const Machine& machine, const MeshShape& shape, const AxisOrder& order, Axis axis, int size) {
  int slowest = -1;
  if (size == 1) return slowest;
  // lab 25.1d begin: as in part c, with rings that close after `size` ranks: from the last neighbour to the first of
  // the same ring
  for (int here = 0; here < shape.ranks(); ++here) {
    Coordinate next = coordinate_of(shape, order, here);
    const int first = next[axis] - next[axis] % size;
    next[axis] = first + (next[axis] + 1) % size;
    const int level = machine.level_between(here, rank_of(shape, order, next));
    slowest = std::max(slowest, level);
  }
  // lab end
  return slowest;
}

}  // namespace lockstep::week25
