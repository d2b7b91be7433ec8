// Exercise 23.8: dropout by axis. Read labs/week23_tensor_parallel/dropout_by_axis.hpp first.
#include "labs/week23_tensor_parallel/dropout_by_axis.hpp"

namespace lockstep::week23 {

Piece piece_of(const Activation& all, const Layout& layout, const Position& here, Split split) {
  // lab 23.8a begin: the replica's sequences, the microbatch's among them, their rows, and what of these the tp rank
  // has. A chunk of a chunk counts from the beginning of the outer one, and a Piece from that of the global activation
  const ChunkRange replica = chunk_range(all.sequences, here.dp, layout.dp);
  const ChunkRange micro = chunk_range(replica.size, here.microbatch, layout.microbatches);
  Piece piece{{(replica.offset + micro.offset) * all.positions, micro.size * all.positions}, {0, all.width}};
  if (split == Split::rows) {
    const ChunkRange own = chunk_range(piece.rows.size, here.tp, layout.tp);
    piece.rows = {piece.rows.offset + own.offset, own.size};
  }
  if (split == Split::columns) piece.columns = chunk_range(all.width, here.tp, layout.tp);
  return piece;
  // lab end
}

void drop_piece(Rank me, Slice y, Slice x, const Activation& all, const Piece& piece, Random key, float p) {
  // lab 23.8a begin: `dropout` on each run of elements that are neighbours in the global activation too, with
  // key.first = the number of its first element. How long are these runs?
  const bool whole_rows = piece.columns.size == all.width;
  const std::size_t length = whole_rows ? x.size() : piece.columns.size;
  for (std::size_t done = 0, row = piece.rows.offset; done < x.size(); done += length, ++row) {
    key.first = row * all.width + piece.columns.offset;
    dropout(me, y.cut(done, length), x.cut(done, length), key, p);
  }
  // lab end
}

Random dropout_key(std::uint64_t seed, std::uint64_t step, std::size_t layer, Place place) {
  // lab 23.8b begin: a tensor number for each layer and place. Which ones are taken?
  constexpr std::uint64_t kPlaces = 5;
  const std::uint64_t tensor = kParameterTensors + layer * kPlaces + static_cast<std::uint64_t>(place);
  return {.seed = seed, .tensor = tensor, .step = step};
  // lab end
}

Split split_of(Place place, bool sequence_parallel) {
  // lab 23.8b begin: where does a rank compute its own heads or hidden units? And everywhere else?
  if (place == Place::probabilities || place == Place::hidden) return Split::columns;
  return sequence_parallel ? Split::rows : Split::replicated;
  // lab end
}

void block_forward(const DroppedBlock& block, const Moment& now, Slice y, Slice hidden, Slice x) {
  const std::size_t rows = x.size() / block.channels;
  // lab 23.8c begin: up, a dropout of the hidden units, down, a dropout of its output, and the residual
  column_forward(block.tp, hidden, x, block.values.up, rows);
  drop(block, now, Place::hidden, hidden, hidden);
  row_forward(block.tp, y, hidden, block.values.down, rows, "down forward");
  drop(block, now, Place::mlp, y, y);
  add(block.tp.group, y, x);
  // lab end
}

void block_backward(const DroppedBlock& block, const Moment& now, Slice dx, Slice hidden, Slice dhidden, Slice dy,
                    Slice x) {
  const std::size_t rows = x.size() / block.channels;
  // lab 23.8c begin: what down's gradient needs, from x once more; then the forward pass from its end. What is the
  // gradient of a dropout, and with which draws?
  column_forward(block.tp, hidden, x, block.values.up, rows);
  drop(block, now, Place::hidden, hidden, hidden);
  drop(block, now, Place::mlp, dx, dy);
  row_backward(block.tp, dhidden, block.gradients.down, dx, hidden, block.values.down, rows);
  drop(block, now, Place::hidden, dhidden, dhidden);
  column_backward(block.tp, dx, block.gradients.up, dhidden, x, block.values.up, rows, "up backward");
  add(block.tp.group, dx, dy);
  // lab end
}

}  // namespace lockstep::week23
