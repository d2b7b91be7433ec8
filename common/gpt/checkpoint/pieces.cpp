#include "common/gpt/checkpoint/pieces.hpp"

#include <algorithm>
#include <map>

namespace lockstep::checkpoint {

namespace {

/// Appends `row` to the last piece if it has the same columns and lies directly below. Returns true if it did.
bool extend(std::vector<Piece>& pieces, std::size_t since, const Piece& row) {
  const auto above = std::find_if(pieces.rbegin(), pieces.rend() - static_cast<std::ptrdiff_t>(since), [&](Piece& p) {
    return p.column == row.column && p.columns == row.columns && p.row + p.rows == row.row && p.at < row.at;
  });
  if (above == pieces.rend() - static_cast<std::ptrdiff_t>(since)) return false;
  const std::size_t stride = above->rows == 1 ? row.at - above->at : above->stride;
  if (above->at + above->rows * stride != row.at) return false;
  if (row.rows > 1 && row.stride != stride) return false;
  above->stride = stride;
  above->rows += row.rows;
  return true;
}

void add(std::vector<Piece>& pieces, std::size_t since, const Piece& piece) {
  if (piece.rows > 0 && piece.columns > 0 && !extend(pieces, since, piece)) pieces.push_back(piece);
}

/// A run consists of the end of one row, whole rows, and the beginning of another.
void add_run(std::vector<Piece>& pieces, std::size_t since, const Run& run, std::size_t width) {
  std::size_t first = run.first, at = run.at, left = run.count;
  const auto take = [&](std::size_t rows, std::size_t columns) {
    add(pieces, since, {run.tensor, first / width, rows, first % width, columns, at, columns});
    first += rows * columns, at += rows * columns, left -= rows * columns;
  };
  if (first % width != 0 || left < width) take(1, std::min(left, width - first % width));
  if (left >= width) take(left / width, width);
  if (left > 0) take(1, left);
}

}  // namespace

std::vector<Run> runs_within(const std::vector<Run>& runs, std::size_t begin, std::size_t end) {
  std::vector<Run> inside;
  for (const Run& run : runs) {
    const std::size_t from = std::max(begin, run.at), to = std::min(end, run.at + run.count);
    if (from < to) inside.push_back({run.tensor, run.first + from - run.at, from, to - from});
  }
  return inside;
}

std::vector<Run> packed(std::vector<Run> runs) {
  std::size_t at = 0;
  for (Run& run : runs) {
    run.at = at;
    at += run.count;
  }
  return runs;
}

std::size_t elements_of(const std::vector<Run>& runs) {
  std::size_t sum = 0;
  for (const Run& run : runs) sum += run.count;
  return sum;
}

std::size_t elements_of(const std::vector<Piece>& pieces) {
  std::size_t sum = 0;
  for (const Piece& piece : pieces) sum += piece.elements();
  return sum;
}

std::vector<Piece> pieces_of(const std::vector<Tensor>& tensors, const std::vector<Run>& runs) {
  std::vector<Piece> pieces;
  std::size_t since = 0;  // the first piece of this run's tensor
  for (const Run& run : runs) {
    while (since < pieces.size() && pieces[since].tensor != run.tensor) ++since;
    if (run.count > 0) add_run(pieces, since, run, tensors.at(run.tensor).columns);
  }
  return pieces;
}

std::vector<Piece> whole_pieces(const std::vector<Tensor>& tensors) {
  std::vector<Piece> pieces;
  std::size_t at = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    pieces.push_back({i, 0, tensors[i].rows, 0, tensors[i].columns, at, tensors[i].columns});
    at += pieces.back().elements();
  }
  return pieces;
}

std::vector<RowCopy> common_rows(const std::vector<Piece>& from, const std::vector<Piece>& to) {
  std::multimap<std::size_t, const Piece*> by_tensor;
  for (const Piece& piece : from) by_tensor.emplace(piece.tensor, &piece);
  std::vector<RowCopy> copies;
  for (const Piece& mine : to) {
    const auto [begin, end] = by_tensor.equal_range(mine.tensor);
    for (auto other = begin; other != end; ++other) {
      const Piece& theirs = *other->second;
      const std::size_t column = std::max(mine.column, theirs.column);
      const std::size_t last_column = std::min(mine.column + mine.columns, theirs.column + theirs.columns);
      const std::size_t last_row = std::min(mine.row + mine.rows, theirs.row + theirs.rows);
      if (column >= last_column) continue;
      for (std::size_t row = std::max(mine.row, theirs.row); row < last_row; ++row)
        copies.push_back({theirs.at + (row - theirs.row) * theirs.stride + column - theirs.column,
                          mine.at + (row - mine.row) * mine.stride + column - mine.column, last_column - column});
    }
  }
  return copies;
}

}  // namespace lockstep::checkpoint
