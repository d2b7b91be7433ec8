// Exercise 22.1: how much GPU memory training needs, and what each ZeRO stage saves and costs, before anything runs.
//
// Follows Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC'20
// (arXiv 1910.02054), sections 3, 5 and 7, and for activations Korthikanti et al., "Reducing Activation Recomputation
// in Large Transformer Models" (arXiv 2205.05198), section 4.
//
// Symbols: Ψ parameters, p ranks, m microbatches; of a layer s positions, b sequences, h channels, a heads.
#pragma once

#include "common/dtype.hpp"

namespace lockstep::week22 {

// Part a: model state -------------------------------------------------------------------------------------------------

/// Bytes of training state for each parameter.
struct Recipe {
  double parameter = 2;
  double gradient = 2;
  double master =
      4;  ///< an fp32 copy that the optimizer updates; 0 where the parameters are fp32, or updated in 16 bits
  double moments = 8;  ///< AdamW's m and v in fp32

  double optimizer() const { return master + moments; }  ///< the paper's K, 12
};

/// Given: AdamW on parameters and gradients of this type. With 16 bits and a master copy 2 + 2 + 4 + 8 = 16 bytes per
/// parameter, in fp32 4 + 4 + 8 = 16 too; 16 bits updated in place are the "12 bytes" of some texts.
Recipe recipe_of(DType dtype, bool master = true);

/// Bytes of one rank.
struct ModelState {
  double parameter_bytes = 0;
  double gradient_bytes = 0;
  double optimizer_bytes = 0;
  double total_bytes() const { return parameter_bytes + gradient_bytes + optimizer_bytes; }
};

/// Stage 0 is plain data parallelism: everything replicated on every rank. Stage 1 divides the optimizer state by p,
/// stage 2 the gradients too, stage 3 the parameters too. Throws Error(usage) where stage, ranks or parameters make no
/// sense.
ModelState model_state(double parameters, int stage, int ranks, Recipe recipe);

/// Given: the least number of ranks, up to `most`, on which the model state fits in `bytes` each; 0 if there is none.
int fewest_ranks(double parameters, int stage, Recipe recipe, double bytes, int most = 1 << 20);

/// Bytes that one rank sends in a step of m microbatches: all-gathers of parameters and reduce-scatters of gradients,
/// Ψ(p − 1)/p elements each. Stages 0 and 1 reduce once per step, stages 2 and 3 once per microbatch; stages 0, 1 and 2
/// gather once per step (stage 0 gathers gradients), stage 3 twice per microbatch.
double bytes_sent(double parameters, int stage, int ranks, int microbatches, Recipe recipe);

// Part b: activations -------------------------------------------------------------------------------------------------

/// Properties that decide the activations of one transformer layer, kept in 16 bits.
struct LayerShape {
  double positions = 0;  ///< s
  double sequences = 0;  ///< b
  double channels = 0;   ///< h
  double heads = 0;      ///< a
  bool dropout = true;   ///< one byte per value for each of three masks
  bool flash = false;    ///< attention never writes its scores (arXiv 2205.14135): 4 bytes per row and head instead
};

/// sbh(34 + 5as/h) with dropout; without it 2sbh and 3·a·b·s² less; with flash attention the scores' 5as²b (2as²b
/// without dropout) become 4abs. Layer norms' statistics are left out, as in the paper.
double activation_bytes_per_layer(LayerShape shape);

}  // namespace lockstep::week22
