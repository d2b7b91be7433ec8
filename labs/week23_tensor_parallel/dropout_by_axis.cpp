// Exercise 23.8: dropout by axis. Read labs/week23_tensor_parallel/dropout_by_axis.hpp first.
#include "labs/week23_tensor_parallel/dropout_by_axis.hpp"

namespace lockstep::week23 {

Piece piece_of(const Activation& all, const Layout& layout, const Position& here, Split split) {
  todo("23.8a",
       "the replica's sequences, the microbatch's among them, their rows, and what of these the tp rank has. A chunk "
       "of a chunk counts from the beginning of the outer one, and a Piece from that of the global activation");
}

void drop_piece(Rank me, Slice y, Slice x, const Activation& all, const Piece& piece, Random key, float p) {
  todo("23.8a",
       "`dropout` on each run of elements that are neighbours in the global activation too, with key.first = the "
       "number of its first element. How long are these runs?");
}

Random dropout_key(std::uint64_t seed, std::uint64_t step, std::size_t layer, Place place) {
  todo("23.8b", "a tensor number for each layer and place. Which ones are taken?");
}

Split split_of(Place place, bool sequence_parallel) {
  todo("23.8b", "where does a rank compute its own heads or hidden units? And everywhere else?");
}

void block_forward(const DroppedBlock& block, const Moment& now, Slice y, Slice hidden, Slice x) {
  const std::size_t rows = x.size() / block.channels;
  todo("23.8c", "up, a dropout of the hidden units, down, a dropout of its output, and the residual");
}

void block_backward(const DroppedBlock& block, const Moment& now, Slice dx, Slice hidden, Slice dhidden, Slice dy,
                    Slice x) {
  const std::size_t rows = x.size() / block.channels;
  todo("23.8c",
       "what down's gradient needs, from x once more; then the forward pass from its end. What is the gradient of a "
       "dropout, and with which draws?");
}

}  // namespace lockstep::week23
