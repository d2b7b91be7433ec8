#include "tools/train/dropout.hpp"

#include <algorithm>
#include <utility>

#include "labs/week23_tensor_parallel/dropout_by_axis.hpp"
#include "labs/week23_tensor_parallel/sequence_chunks.hpp"

namespace lockstep::train {

namespace {

week23::Place place_of(Dropped output) {
  switch (output) {
    case Dropped::embedding: return week23::Place::embedding;
    case Dropped::attention: return week23::Place::attention;
    default: return week23::Place::mlp;
  }
}

/// The dropouts of one rank.
class AxisDropout {
 public:
  AxisDropout(const week25::Options3d& o, const week25::Coordinate& here, week21::StepsDone steps, float p)
      : all_{o.batch, o.sequence, o.model.d_model},
        layout_{o.replicas(), o.mesh.tp, o.microbatches},
        here_{here.dp / o.cp, here.tp, 0},
        share_{here.dp % o.cp, o.cp},
        sequence_parallel_(o.sequence_parallel && o.mesh.tp > 1),
        seed_(o.seed),
        steps_(std::move(steps)),
        p_(p) {}

  void operator()(Rank me, int microbatch, std::size_t layer, Dropped output, const Slice& y, const Slice& x) const {
    const week23::Place place = place_of(output);
    const Random key = week23::dropout_key(seed_, steps_(), layer, place);
    week23::Position here = here_;
    here.microbatch = microbatch;
    const week23::Split split = split_of(place, sequence_parallel_);
    if (share_.ranks == 1)
      return week23::drop_piece(me, y, x, all_, week23::piece_of(all_, layout_, here, split), key, p_);
    // In zig-zag: the replica's rank has two runs of each sequence's rows, and this rank a chunk of them all if tp
    // shares them.
    const week23::Piece all = week23::piece_of(all_, layout_, here, week23::Split::replicated);
    const std::size_t rows = week23::chunk_positions(all_.positions, share_.ranks);
    const std::size_t held = all.rows.size / static_cast<std::size_t>(share_.ranks);
    const ChunkRange own = split == week23::Split::rows ? chunk_range(held, here.tp, layout_.tp) : ChunkRange{0, held};
    std::size_t run = 0;  // its first row among those held
    for (const int number : week23::chunks_of(share_.rank, share_.ranks, week23::SequenceCut::zigzag))
      for (std::size_t sequence = 0; sequence < all.rows.size; sequence += all_.positions, run += rows) {
        const std::size_t begin = std::max(run, own.offset), end = std::min(run + rows, own.offset + own.size);
        if (begin >= end) continue;
        const std::size_t first = all.rows.offset + sequence + static_cast<std::size_t>(number) * rows + begin - run;
        const std::size_t at = (begin - own.offset) * all_.width, size = (end - begin) * all_.width;
        week23::drop_piece(me, y.cut(at, size), x.cut(at, size), all_, {{first, end - begin}, all.columns}, key, p_);
      }
  }

 private:
  week23::Activation all_;
  week23::Layout layout_;
  week23::Position here_;       // without the microbatch
  week23::ContextShare share_;  // of the replica's sequences
  bool sequence_parallel_;
  std::uint64_t seed_;
  week21::StepsDone steps_;
  float p_;
};

}  // namespace

week25::MakeDropout dropout_code(double p) {
  if (p == 0) return {};
  return [p](const week25::Options3d& o, const week25::Coordinate& here, week21::StepsDone steps) -> Dropout {
    return AxisDropout(o, here, std::move(steps), static_cast<float>(p));
  };
}

}  // namespace lockstep::train
