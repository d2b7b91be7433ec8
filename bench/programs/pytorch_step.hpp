// PyTorch's training step for the same model and shape: pytorch_step.py, in a separate process for each rank, which
// sleeps in the meantime.
#pragma once

#include <string>

#include "bench/programs/ddp_step.hpp"

namespace lockstep::bench {

struct PyTorch {
  std::string python;   // the interpreter that has PyTorch
  std::string version;  // "" if none has
};
/// Tries LOCKSTEP_PYTORCH, then python3 on PATH, then Debian's.
PyTorch find_pytorch();

/// `model`: a preset's name. `how`: "eager" or "compiled". Uses DistributedDataParallel over Gloo with several ranks.
Contender pytorch_contender(const PyTorch& pytorch, const std::string& model, const StepShape& shape,
                            const std::string& how);

}  // namespace lockstep::bench
