// Exercise 23.8 in another way: elements grow to runs one by one, a mixed key, and down's gradients from the library's
// products.
#include "labs/week23_tensor_parallel/dropout_by_axis.hpp"

#include "common/gpt/model/block.hpp"

namespace lockstep::week23 {

Piece piece_of(const Activation& all, const Layout& layout, const Position& here, Split split) {
  std::size_t first = 0, end = 0, passed = 0;
  for (int replica = 0; replica <= here.dp; ++replica) {
    const std::size_t sequences = chunk_range(all.sequences, replica, layout.dp).size;
    for (int micro = 0; micro < layout.microbatches; ++micro) {
      const std::size_t count = chunk_range(sequences, micro, layout.microbatches).size * all.positions;
      if (replica == here.dp && micro == here.microbatch) first = passed, end = passed + count;
      passed += count;
    }
  }
  Piece piece{{first, end - first}, {0, all.width}};
  if (split == Split::replicated) return piece;
  ChunkRange& cut = split == Split::rows ? piece.rows : piece.columns;
  const ChunkRange own = chunk_range(cut.size, here.tp, layout.tp);
  cut.offset += own.offset;
  cut.size = own.size;
  return piece;
}

void drop_piece(Rank me, Slice y, Slice x, const Activation& all, const Piece& piece, Random key, float p) {
  const auto number = [&](std::size_t i) {
    return (piece.rows.offset + i / piece.columns.size) * all.width + piece.columns.offset + i % piece.columns.size;
  };
  for (std::size_t begin = 0, end = 0; begin < x.size(); begin = end) {
    while (end < x.size() && number(end) == number(begin) + (end - begin)) ++end;
    dropout(me, y.cut(begin, end - begin), x.cut(begin, end - begin),
            {.seed = key.seed, .tensor = key.tensor, .step = key.step, .first = number(begin)}, p);
  }
}

Random dropout_key(std::uint64_t seed, std::uint64_t step, std::size_t layer, Place place) {
  return {.seed = seed, .tensor = 8 * layer + static_cast<std::uint64_t>(place), .step = step + 1};  // never step 0
}

Split split_of(Place place, bool sequence_parallel) {
  const bool between = place == Place::embedding || place == Place::attention || place == Place::mlp;
  return !between ? Split::columns : sequence_parallel ? Split::rows : Split::replicated;
}

void block_forward(const DroppedBlock& block, const Moment& now, Slice y, Slice hidden, Slice x) {
  const std::size_t rows = x.size() / block.channels;
  linear(block.tp.group, hidden, x, block.values.up.weight, {}, rows);
  drop(block, now, Place::hidden, hidden, hidden);
  linear(block.tp.group, y, hidden, block.values.down.weight, {}, rows);
  g_forward(block.tp, y, "down forward");
  drop(block, now, Place::mlp, y, y);
  add(block.tp.group, y, x);
}

void block_backward(const DroppedBlock& block, const Moment& now, Slice dx, Slice hidden, Slice dhidden, Slice dy,
                    Slice x) {
  Rank me = block.tp.group;
  const std::size_t rows = x.size() / block.channels;
  drop(block, now, Place::mlp, dx, dy);
  linear_backward_input(me, dhidden, dx, block.values.down.weight, rows);
  linear(me, hidden, x, block.values.up.weight, {}, rows);
  drop(block, now, Place::hidden, hidden, hidden);
  linear_backward_weight(me, block.gradients.down.weight, {}, dx, hidden, rows);
  drop(block, now, Place::hidden, dhidden, dhidden);
  column_backward(block.tp, dx, block.gradients.up, dhidden, x, block.values.up, rows, "up backward");
  add(me, dx, dy);
}

}  // namespace lockstep::week23
