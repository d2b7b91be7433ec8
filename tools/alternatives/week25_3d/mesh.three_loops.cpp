// 25.1 by walking through the whole mesh with three loops, as a table of who is where.
#include "labs/week25_3d/mesh.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace lockstep::week25 {
namespace {

std::vector<Coordinate> table(const MeshShape& shape, const AxisOrder& order) {
  std::vector<Coordinate> places;
  for (int outer = 0; outer < shape[order[2]]; ++outer)
    for (int middle = 0; middle < shape[order[1]]; ++middle)
      for (int inner = 0; inner < shape[order[0]]; ++inner) {
        Coordinate& at = places.emplace_back();
        at[order[0]] = inner;
        at[order[1]] = middle;
        at[order[2]] = outer;
      }
  return places;
}

/// Coordinate of the next rank on `axis`, round the ring.
Coordinate neighbour(Coordinate at, const MeshShape& shape, Axis axis) {
  at[axis] = at[axis] + 1 < shape[axis] ? at[axis] + 1 : 0;
  return at;
}

}  // namespace

int rank_of(const MeshShape& shape, const AxisOrder& order, const Coordinate& at) {
  const std::vector<Coordinate> places = table(shape, order);
  return static_cast<int>(std::find(places.begin(), places.end(), at) - places.begin());
}

Coordinate coordinate_of(const MeshShape& shape, const AxisOrder& order, int rank) {
  return table(shape, order)[static_cast<std::size_t>(rank)];
}

Mesh make_mesh(Rank world, const MeshShape& shape, const AxisOrder& order) {
  if (shape.dp <= 0 || shape.tp <= 0 || shape.pp <= 0 || shape.ranks() != world.size())
    usage_error(std::to_string(world.size()) + " ranks do not make this mesh: it has " + std::to_string(shape.ranks()) +
                " ranks, not " + std::to_string(world.size()));
  const Coordinate here = coordinate_of(shape, order, world.rank());
  Rank dp = world.split(here.tp * shape.pp + here.pp, here.dp);
  Rank tp = world.split(here.pp * shape.dp + here.dp, here.tp);
  Rank pp = world.split(here.dp * shape.tp + here.tp, here.pp);
  return {shape, order, here, world, dp, tp, pp};
}

int slowest_level(const Machine& machine, const MeshShape& shape, const AxisOrder& order, Axis axis) {
  std::vector<int> levels{-1};
  const std::vector<Coordinate> places = table(shape, order);
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const int next = rank_of(shape, order, neighbour(places[rank], shape, axis));
    if (next != static_cast<int>(rank)) levels.push_back(machine.level_between(next, static_cast<int>(rank)));
  }
  return *std::max_element(levels.begin(), levels.end());
}

AxisParts divide_axis(Rank axis, int size) {
  if (size < 1 || axis.size() % size > 0)
    usage_error("parts of " + std::to_string(size) + " of " + std::to_string(axis.size()) + " ranks");
  // A small mesh of its own: neighbours as tp, the others as dp.
  const Mesh mesh = make_mesh(axis, {.dp = axis.size() / size, .tp = size, .pp = 1});
  return {mesh.tp, mesh.dp};
}

int slowest_level_inside(const Machine& machine, const MeshShape& shape, const AxisOrder& order, Axis axis, int size) {
  std::vector<int> levels{-1};
  for (const Coordinate& at : table(shape, order))
    for (int other = at[axis] / size * size; other < (at[axis] / size + 1) * size; ++other) {
      Coordinate to = at;
      to[axis] = other;
      const bool next = other == at[axis] + 1, closes = at[axis] % size == size - 1 && other + size == at[axis] + 1;
      if (size > 1 && (next || closes))
        levels.push_back(machine.level_between(rank_of(shape, order, at), rank_of(shape, order, to)));
    }
  return *std::max_element(levels.begin(), levels.end());
}

}  // namespace lockstep::week25
