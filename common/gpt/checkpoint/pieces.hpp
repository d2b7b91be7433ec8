// Which part of a model a rank has, told so that no layout of ranks matters: boxes of the tensors of the serial model.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep::checkpoint {

/// A tensor of the serial model, row-major; vectors have one row.
struct Tensor {
  std::string name;
  std::size_t rows = 0;
  std::size_t columns = 0;
  bool operator==(const Tensor&) const = default;
};

/// `count` elements of a rank's array from `at` on, which are elements first, first + 1, … of a serial tensor.
struct Run {
  std::size_t tensor = 0;
  std::size_t first = 0;
  std::size_t at = 0;
  std::size_t count = 0;
};

/// A box of a serial tensor; its first element is element `at` of a rank's array, and each row begins `stride` elements
/// after the one before.
struct Piece {
  std::size_t tensor = 0;
  std::size_t row = 0, rows = 0;
  std::size_t column = 0, columns = 0;
  std::size_t at = 0, stride = 0;

  std::size_t elements() const { return rows * columns; }
  bool operator==(const Piece&) const = default;
};

/// The part of each run whose elements of the array are in [begin, end).
std::vector<Run> runs_within(const std::vector<Run>& runs, std::size_t begin, std::size_t end);
/// The same elements without gaps: run after run from 0 on.
std::vector<Run> packed(std::vector<Run> runs);
std::size_t elements_of(const std::vector<Run>& runs);

/// Few boxes with the same elements: neighbouring rows that lie equally far apart become one.
std::vector<Piece> pieces_of(const std::vector<Tensor>& tensors, const std::vector<Run>& runs);
std::size_t elements_of(const std::vector<Piece>& pieces);
/// All tensors one after the other, each whole: an array of the serial model.
std::vector<Piece> whole_pieces(const std::vector<Tensor>& tensors);

/// `elements` of a tensor's row in both places: from `from` in one array to `to` in the other.
struct RowCopy {
  std::size_t from = 0, to = 0, elements = 0;
};
/// What two lists of pieces have in common.
std::vector<RowCopy> common_rows(const std::vector<Piece>& from, const std::vector<Piece>& to);

}  // namespace lockstep::checkpoint
