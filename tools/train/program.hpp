// The program of each rank in ./lab train: the serial step on one rank, DDP on several.
#pragma once

#include "tools/train/checkpoint.hpp"
#include "tools/train/log.hpp"
#include "tools/train/plan.hpp"
#include "tools/train/stop.hpp"

namespace lockstep::train {

/// Trains from plan.request.resume (or from the start) to plan.request.steps, or until a step that diverges or a signal
/// to end: the log says so. Rank 0 writes to `log`; checkpoints go to `files`; `signals` are this process's. Returns
/// what kSquares and kBytesSent of log.hpp index; the squares are the same on every rank.
Values train_rank(Rank me, const TrainPlan& plan, TrainLog& log, checkpoint::Files& files, StopSignals& signals);

}  // namespace lockstep::train
