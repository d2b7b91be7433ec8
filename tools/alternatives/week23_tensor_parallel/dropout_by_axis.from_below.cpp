// Exercise 23.8 in another way: pieces from borders on all axes, numbers that count up from row to row, keys whose step
// is above the tensor's number, and a backward pass that begins with dy.
#include "labs/week23_tensor_parallel/dropout_by_axis.hpp"

namespace lockstep::week23 {

Piece piece_of(const Activation& all, const Layout& layout, const Position& here, Split split) {
  const auto part = [](ChunkRange of, int index, int count) {
    const ChunkRange inner = chunk_range(of.size, index, count);
    return ChunkRange{of.offset + inner.offset, inner.size};
  };
  ChunkRange rows = part(part({0, all.sequences}, here.dp, layout.dp), here.microbatch, layout.microbatches);
  rows.offset *= all.positions;
  rows.size *= all.positions;
  const ChunkRange columns{0, all.width};
  switch (split) {
    case Split::rows: return {part(rows, here.tp, layout.tp), columns};
    case Split::columns: return {rows, part(columns, here.tp, layout.tp)};
    default: return {rows, columns};
  }
}

void drop_piece(Rank me, Slice y, Slice x, const Activation& all, const Piece& piece, Random key, float p) {
  key.first = piece.rows.offset * all.width + piece.columns.offset;
  if (piece.columns.size == all.width) return dropout(me, y, x, key, p);
  for (std::size_t row = 0; row < piece.rows.size; ++row) {
    const auto part = [&](const Slice& of) { return of.cut(row * piece.columns.size, piece.columns.size); };
    dropout(me, part(y), part(x), key, p);
    key.first += all.width;
  }
}

Random dropout_key(std::uint64_t seed, std::uint64_t step, std::size_t layer, Place place) {
  const std::uint64_t of_place = (static_cast<std::uint64_t>(place) + 1) << 48;
  return {seed, of_place | layer, step, 0};
}

Split split_of(Place place, bool sequence_parallel) {
  switch (place) {
    case Place::probabilities:
    case Place::hidden: return Split::columns;
    default: return sequence_parallel ? Split::rows : Split::replicated;
  }
}

void block_forward(const DroppedBlock& block, const Moment& now, Slice y, Slice hidden, Slice x) {
  const std::size_t rows = x.size() / block.channels;
  column_forward(block.tp, hidden, x, block.values.up, rows);
  drop(block, now, Place::hidden, hidden, hidden);
  row_forward(block.tp, y, hidden, block.values.down, rows, "down forward");
  drop(block, now, Place::mlp, y, y);
  add(block.tp.group, y, y, x);
}

void block_backward(const DroppedBlock& block, const Moment& now, Slice dx, Slice hidden, Slice dhidden, Slice dy,
                    Slice x) {
  const std::size_t rows = x.size() / block.channels;
  drop(block, now, Place::mlp, dx, dy);
  column_forward(block.tp, hidden, x, block.values.up, rows);
  drop(block, now, Place::hidden, hidden, hidden);
  row_backward(block.tp, dhidden, block.gradients.down, dx, hidden, block.values.down, rows);
  drop(block, now, Place::hidden, dhidden, dhidden);
  column_backward(block.tp, dx, block.gradients.up, dhidden, x, block.values.up, rows, "up backward");
  add(block.tp.group, dx, dx, dy);
}

}  // namespace lockstep::week23
