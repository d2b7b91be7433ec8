// Loads batches for the trainer of a rank: when a step needs them, or --load-ahead of them on a queue of their
// own, while earlier steps compute.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/train/trainer.hpp"

namespace lockstep::train {

/// Uploads this rank's positions of `text`, whose rows are those of the batches together; none: zeros.
void upload_text(Rank me, const std::vector<Batch>& batches, const week23::ContextShare& context,
                 const TextBatch* text);

/// Memory for one batch that waits for its step, like the trainer's own.
std::vector<Batch> allocate_waiting(Rank me, const std::vector<Batch>& like);

/// One per rank and run; collective over the run, at set-up.
class Loader {
 public:
  Loader(Rank me, const TrainPlan& plan, Trainer& trainer);

  /// Brings the batch of `step` into the trainer's. Steps come in order.
  void bring(std::size_t step);
  /// Waits for loads in progress. Call it before the run ends.
  void finish();
  /// Bytes of this rank's rows of a batch at their source.
  std::size_t bytes() const { return source_.bytes; }

 private:
  /// Everything that loading a batch needs: a closure has its own copy, since it may outlive the loader of a failed
  /// run.
  struct Source {
    const Corpus* corpus = nullptr;  // null: zeros
    ChunkRange shard;
    std::size_t length = 0, bytes = 0;
    std::uint64_t seed = 0;
    week23::ContextShare context;
    double seconds = 0;  // for which the host is busy with it
    PassTime pass_time = nullptr;
  };
  /// A batch that waits for its step, or is being loaded.
  struct Waiting {
    std::vector<Batch> parts;
    Ticket loaded;
  };

  static void load(Rank me, const Source& source, std::size_t step, const std::vector<Batch>& into);
  void load_next();

  Rank me_, queue_;
  Trainer& trainer_;
  Source source_;
  std::vector<Waiting> waiting_;  // the batch of a step is at its number modulo their count; empty: none is read ahead
  std::size_t next_, end_;        // steps: the next to load, and that after the last
};

}  // namespace lockstep::train
