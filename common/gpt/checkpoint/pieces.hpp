// The part of a model that a rank holds, described independently of any layout of ranks: boxes in the tensors of the
// serial model.
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

/// `count` elements of a rank's array, from `at`. They are elements first, first + 1, … of a serial tensor.
struct Run {
  std::size_t tensor = 0;
  std::size_t first = 0;
  std::size_t at = 0;
  std::size_t count = 0;
};

/// A box in a serial tensor. Its first element is element `at` of a rank's array; each row begins `stride` elements
/// after the one before.
struct Piece {
  std::size_t tensor = 0;
  std::size_t row = 0, rows = 0;
  std::size_t column = 0, columns = 0;
  std::size_t at = 0, stride = 0;

  std::size_t elements() const { return rows * columns; }
  bool operator==(const Piece&) const = default;
};

/// Returns the part of each run whose elements of the array are in [begin, end).
std::vector<Run> runs_within(const std::vector<Run>& runs, std::size_t begin, std::size_t end);
/// Returns the same elements without gaps: run after run, starting at 0.
std::vector<Run> packed(std::vector<Run> runs);
std::size_t elements_of(const std::vector<Run>& runs);

/// Returns few boxes with the same elements: neighbouring rows at equal distances are merged.
std::vector<Piece> pieces_of(const std::vector<Tensor>& tensors, const std::vector<Run>& runs);
std::size_t elements_of(const std::vector<Piece>& pieces);
/// Returns all tensors, whole and one after the other: the array of the serial model.
std::vector<Piece> whole_pieces(const std::vector<Tensor>& tensors);

/// A part of a tensor's row in both arrays: `elements` from `from` in one to `to` in the other.
struct RowCopy {
  std::size_t from = 0, to = 0, elements = 0;
};
/// Returns the elements that two lists of pieces share.
std::vector<RowCopy> common_rows(const std::vector<Piece>& from, const std::vector<Piece>& to);

}  // namespace lockstep::checkpoint
