// PyTorch's training step of the same model and shape beside ours: pytorch_step.py, in a process of its own for each
// rank, which waits asleep meanwhile.
#pragma once

#include <string>

#include "bench/programs/ddp_step.hpp"

namespace lockstep::bench {

struct PyTorch {
  std::string python;   // the interpreter that has it
  std::string version;  // "" where none has
};
/// LOCKSTEP_PYTORCH, else python3 on PATH, else Debian's.
PyTorch find_pytorch();

/// `model`: a preset's name. `how`: "eager" or "compiled". With several ranks DistributedDataParallel over Gloo.
Contender pytorch_contender(const PyTorch& pytorch, const std::string& model, const StepShape& shape,
                            const std::string& how);

}  // namespace lockstep::bench
