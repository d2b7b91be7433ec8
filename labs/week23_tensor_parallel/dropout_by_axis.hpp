// Exercise 23.8 (extra): dropout by axis. Ranks with different rows, or different columns, must drop different
// elements; ranks that hold the same elements must drop the same ones; and a recomputation must drop what the forward
// pass has dropped. All of this follows if an element's draw depends on its place in the global activation, and on
// nothing else.
//
// Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011): random numbers from counters, without state.
// Shoeybi et al., "Megatron-LM" (arXiv 1909.08053), appendix "Model Parallel Random Number Generation": which dropouts
// of a block are equal on the ranks that share it. Srivastava et al., "Dropout" (JMLR 15, 2014), section 10: the factor
// 1/(1 − p) while training.
#pragma once

#include "labs/week23_tensor_parallel/tensor_mlp.hpp"

namespace lockstep::week23 {

// Part a: which elements of the global activation a rank has, and their draws -----------------------------------------

/// One activation of a whole step, over all replicas and microbatches: `sequences` × `positions` rows of `width`,
/// row-major. Element (row, column) is number row · width + column.
struct Activation {
  std::size_t sequences = 1;
  std::size_t positions = 1;  ///< rows of each sequence; 1 for attention's probabilities, whose width is h · T · T
  std::size_t width = 1;
};

struct Layout {
  int dp = 1;            ///< replicas. Each has a chunk of the sequences
  int tp = 1;            ///< ranks that share each layer of a replica
  int microbatches = 1;  ///< of each replica. Each is a chunk of the replica's sequences
};
/// A rank's place in the layout, and the microbatch that it is working on.
struct Position {
  int dp = 0, tp = 0, microbatch = 0;
};

/// The part that the tp ranks of a replica have of a microbatch's activation: all of it; a chunk of its rows (sequence
/// parallelism); or a chunk of its columns.
enum class Split : std::uint8_t { replicated, rows, columns };

/// Rows and columns of the global activation. A rank stores them as rows.size × columns.size elements.
struct Piece {
  ChunkRange rows, columns;
};

/// The piece that the rank at `here` has. All chunks are chunk_range's, and may be of different sizes or empty.
Piece piece_of(const Activation& all, const Layout& layout, const Position& here, Split split);

/// y = dropout of x, which are both the elements of `piece`: each is decided by the draw of its number in the global
/// activation. y may be x. `key` is dropout_key's. Calls of `dropout`: one for a piece of whole rows, else one per row,
/// and none for an empty piece.
void drop_piece(Rank me, Slice y, Slice x, const Activation& all, const Piece& piece, Random key, float p);

// Part b: keys, and replicated activations ----------------------------------------------------------------------------

/// The dropouts of a GPT: of the embedding (layer 0); in each layer of attention's probabilities, of its output after
/// the projection, of the MLP's hidden units and of its output.
enum class Place : std::uint8_t { embedding, probabilities, attention, hidden, mlp };

/// Parameters are drawn with the same seed, in step 0, as tensors 0, 1, … below this number.
inline constexpr std::uint64_t kParameterTensors = std::uint64_t{1} << 32;

/// The key of a dropout, with `first` = 0: always the same for the same arguments, and for any two different (seed,
/// step, layer, place) a different one, which is also no parameter's. At most 2^16 layers.
Random dropout_key(std::uint64_t seed, std::uint64_t step, std::size_t layer, Place place);

/// Returns what the tp ranks have of the activation at `place`, in the block of 23.2 and 23.3; with
/// `sequence_parallel`, in 23.5's.
Split split_of(Place place, bool sequence_parallel);

// Part c: a checkpointed block ----------------------------------------------------------------------------------------

/// One step's microbatch on this rank.
struct Moment {
  std::uint64_t seed = 0, step = 0;
  Layout layout;
  Position here;
  std::size_t sequences = 1, positions = 1;  ///< of the whole step
};

/// An MLP with two dropouts and a residual connection, y = x + D'(Down·D(Up·x)). There is no GELU and no bias, so that
/// the tests can be exact. `values` and `gradients` are this rank's, as in 23.2.
struct DroppedBlock {
  TensorParallel tp;
  MlpTensors values, gradients;
  std::size_t channels = 1, hidden = 1;  ///< C and H, of the whole block
  std::size_t layer = 0;
  float p = 0.1f;
};

/// Given: y = dropout of x, the activation at `place`. y may be x.
inline void drop(const DroppedBlock& block, const Moment& now, Place place, Slice y, Slice x) {
  const Activation all{now.sequences, now.positions, place == Place::hidden ? block.hidden : block.channels};
  const Piece piece = piece_of(all, now.layout, now.here, split_of(place, false));
  drop_piece(block.tp.group, y, x, all, piece, dropout_key(now.seed, now.step, block.layer, place), block.p);
}

/// y (N × C) from x (N × C), this replica's rows of the microbatch (N ≥ 1), whole on each of its tp ranks. `hidden` (N
/// × H/tp) is scratch. With 23.1's layers, without biases: one sum over tp, "down forward".
void block_forward(const DroppedBlock& block, const Moment& now, Slice y, Slice hidden, Slice x);

/// dx from dy (both N × C, whole); the gradients accumulate. Of the forward pass only x was kept. `hidden` and
/// `dhidden` (N × H/tp) are scratch; nothing else is allocated here, and dy and x stay as they are. One sum over tp,
/// "up backward".
void block_backward(const DroppedBlock& block, const Moment& now, Slice dx, Slice hidden, Slice dhidden, Slice dy,
                    Slice x);

}  // namespace lockstep::week23
