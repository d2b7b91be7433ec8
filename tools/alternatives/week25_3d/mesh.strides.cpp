// 25.1 with the stride of each axis; groups are told apart by their first rank, and made in another order.
#include "labs/week25_3d/mesh.hpp"

#include <algorithm>
#include <string>

namespace lockstep::week25 {
namespace {

/// Number of ranks between neighbours on `axis`.
int stride_of(const MeshShape& shape, const AxisOrder& order, Axis axis) {
  int stride = 1;
  for (std::size_t i = 0; order[i] != axis; ++i) stride *= shape[order[i]];
  return stride;
}

int along(const MeshShape& shape, const AxisOrder& order, Axis axis, int rank) {
  return rank / stride_of(shape, order, axis) % shape[axis];
}

Rank ring_of(const Rank& world, const MeshShape& shape, const AxisOrder& order, Axis axis) {
  const int rank = world.rank(), place = along(shape, order, axis, rank);
  const int first = rank - place * stride_of(shape, order, axis);
  return world.split(first, rank);
}

}  // namespace

int rank_of(const MeshShape& shape, const AxisOrder& order, const Coordinate& at) {
  return at.dp * stride_of(shape, order, Axis::dp) + at.tp * stride_of(shape, order, Axis::tp) +
         at.pp * stride_of(shape, order, Axis::pp);
}

Coordinate coordinate_of(const MeshShape& shape, const AxisOrder& order, int rank) {
  return {.dp = along(shape, order, Axis::dp, rank),
          .tp = along(shape, order, Axis::tp, rank),
          .pp = along(shape, order, Axis::pp, rank)};
}

Mesh make_mesh(Rank world, const MeshShape& shape, const AxisOrder& order) {
  const int wanted = shape.dp * shape.tp * shape.pp;
  if (std::min({shape.dp, shape.tp, shape.pp}) < 1 || wanted != world.size())
    usage_error("this mesh has " + std::to_string(wanted) + " ranks, not " + std::to_string(world.size()));
  Mesh mesh;
  mesh.shape = shape;
  mesh.order = order;
  mesh.world = world;
  mesh.pp = ring_of(world, shape, order, Axis::pp);
  mesh.tp = ring_of(world, shape, order, Axis::tp);
  mesh.dp = ring_of(world, shape, order, Axis::dp);
  mesh.here = {mesh.dp.rank(), mesh.tp.rank(), mesh.pp.rank()};
  return mesh;
}

int slowest_level(const Machine& machine, const MeshShape& shape, const AxisOrder& order, Axis axis) {
  int slowest = -1;
  const int stride = stride_of(shape, order, axis), length = shape[axis] * stride;
  for (int rank = 0; length > stride && rank < shape.ranks(); ++rank) {
    const bool last = along(shape, order, axis, rank) + 1 == shape[axis];
    slowest = std::max(slowest, machine.level_between(rank, last ? rank + stride - length : rank + stride));
  }
  return slowest;
}

AxisParts divide_axis(Rank axis, int size) {
  if (size <= 0 || axis.size() / size * size != axis.size())
    usage_error(std::to_string(axis.size()) + " ranks, in parts of " + std::to_string(size));
  const int place = axis.rank() % size;
  AxisParts parts;
  parts.across = axis.split(place, axis.rank() / size);
  parts.inside = axis.split(axis.rank() - place, place);
  return parts;
}

int slowest_level_inside(const Machine& machine, const MeshShape& shape, const AxisOrder& order, Axis axis, int size) {
  int slowest = -1;
  const int stride = stride_of(shape, order, axis), length = size * stride;
  for (int rank = 0; size > 1 && rank < shape.ranks(); ++rank) {
    const bool last = along(shape, order, axis, rank) % size == size - 1;
    slowest = std::max(slowest, machine.level_between(rank, last ? rank + stride - length : rank + stride));
  }
  return slowest;
}

}  // namespace lockstep::week25
