// ./lab flops: what training costs in floating-point operations, and for how long a machine is busy with them. By
// formulas alone, those of exercise 25.7: nothing runs, and nothing is predicted.
#pragma once

#include <cstddef>

#include "common/gpt/model/config.hpp"

namespace lockstep::plan {

/// FLOP of one token, forward and backward (three times the forward's), by where they are done: each multiply-add
/// counts two, and work a program adds (recomputation) none.
struct TokenFlop {
  double attention_matrices = 0;  ///< qkv and projection: of GPT-2 24 L C²
  double mlp = 0;                 ///< up (with SwiGLU its gate too) and down: of GPT-2 48 L C²
  double scores = 0;              ///< attention's scores and sums, half of them behind the causal mask: 6 L C T
  double head = 0;                ///< 6 V C

  double sum() const { return attention_matrices + mlp + scores + head; }
  /// Counts them as PaLM does (arXiv 2204.02311, appendix B): scores of the masked half too.
  double palm() const { return sum() + scores; }
};
/// FLOP of a token in a sequence of `length`.
TokenFlop token_flop(const GptConfig& model, std::size_t length);

/// ./lab flops; arguments as of main.
int flops_program(int argc, char** argv);

}  // namespace lockstep::plan
