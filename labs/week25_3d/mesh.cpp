// Exercise 25.1: the mesh. Read labs/week25_3d/mesh.hpp first.
#include "labs/week25_3d/mesh.hpp"

#include <algorithm>
#include <string>

namespace lockstep::week25 {

int rank_of(const MeshShape& shape, const AxisOrder& order, const Coordinate& at) {
  todo("25.1a",
       "a step on the innermost axis is one rank; on the next axis as many as there are on the innermost; and so on");
}

Coordinate coordinate_of(const MeshShape& shape, const AxisOrder& order, int rank) {
  todo("25.1a", "and back: remainder and quotient, axis by axis");
}

namespace {

std::string words(const MeshShape& shape) {
  return "(dp, tp, pp) = (" + std::to_string(shape.dp) + ", " + std::to_string(shape.tp) + ", " +
         std::to_string(shape.pp) + ")";
}

/// The group of `here` along `axis`, of which every rank of `world` makes one.
Rank group_along(const Rank& world, const MeshShape& shape, const AxisOrder& order, Coordinate here, Axis axis) {
  todo("25.1b",
       "split the world. Ranks that differ only on this axis need one colour, which others do not have; the key "
       "orders them along the axis");
}

}  // namespace

Mesh make_mesh(Rank world, const MeshShape& shape, const AxisOrder& order) {
  if (shape.dp < 1 || shape.tp < 1 || shape.pp < 1 || shape.ranks() != world.size())
    usage_error("a mesh of " + words(shape) + " has " + std::to_string(shape.ranks()) + " ranks, not " +
                std::to_string(world.size()));
  Mesh mesh{.shape = shape, .order = order, .here = {}, .world = world, .dp = {}, .tp = {}, .pp = {}};
  todo("25.1b", "where this rank is, and its three groups; every rank makes them in the same order");
}

int slowest_level(const Machine& machine, const MeshShape& shape, const AxisOrder& order, Axis axis) {
  int slowest = -1;
  if (shape[axis] == 1) return slowest;
  todo("25.1c",
       "for every rank its neighbour on the axis, and the level between them (machine.level_between); keep the "
       "largest");
  return slowest;
}

AxisParts divide_axis(Rank axis, int size) {
  if (size < 1 || axis.size() % size != 0)
    usage_error("an axis of " + std::to_string(axis.size()) + " ranks does not divide into parts of " +
                std::to_string(size));
  todo("25.1d",
       "two splits, which every rank makes in the same order: neighbours have the same quotient by `size`, and ranks "
       "at the same place among their neighbours the same remainder");
}

int slowest_level_inside(const Machine& machine, const MeshShape& shape, const AxisOrder& order, Axis axis, int size) {
  int slowest = -1;
  if (size == 1) return slowest;
  todo("25.1d",
       "as in part c, with rings that close after `size` ranks: from the last neighbour to the first of the same "
       "ring");
  return slowest;
}

}  // namespace lockstep::week25
