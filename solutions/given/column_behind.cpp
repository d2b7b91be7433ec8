// Given to the trainer: 23.5b's column_backward_rows with its scatter overlapped too. Students get it compiled, because
// its text is 23.5's answer.
#include "labs/week23_tensor_parallel/sequence_layers.hpp"

namespace lockstep::week23 {

void column_backward_behind(const TensorParallel& tp, Slice dx, const LinearTensors& gradients, Slice dy, Slice x,
                            const LinearTensors& values, std::size_t rows, const char* gather, const char* scatter) {
  // lab 23.5b begin: as column_backward_rows, with the scatter on tp.comm beside the gradient of the weight
  Rank me = tp.group;
  const Slice whole = whole_rows(tp, x), dwhole = whole_rows(tp, x);
  const Ticket gathered = me.run(tp.comm, [whole, x, gather](Rank queue) { gather_rows(queue, whole, x, gather); });
  linear_backward_input(me, dwhole, dy, values.weight, rows);
  const Ticket scattered =
      me.run(tp.comm, [dx, dwhole, scatter](Rank queue) { scatter_rows(queue, dx, dwhole, scatter); });
  me.wait(gathered);
  linear_backward_weight(me, gradients.weight, gradients.bias, dy, whole, rows);
  me.wait(scattered);
  // lab end
}

void column_backward_parts(const TensorParallel& tp, Slice dx, const std::array<LayerSlope, 2>& parts, Slice x,
                           std::size_t rows, bool behind, const char* gather, const char* scatter) {
  // lab 23.5b begin: as column_backward_rows, or column_backward_behind, with the sum of two parts' dx
  Rank me = tp.group;
  const Slice whole = whole_rows(tp, x), dwhole = whole_rows(tp, x);
  const auto run = [&](auto&& work) {
    if (tp.overlap) return me.run(tp.comm, work);
    work(me);
    return Ticket();
  };
  const Ticket gathered = run([whole, x, gather](Rank queue) { gather_rows(queue, whole, x, gather); });
  const auto weights = [&] {
    me.wait(gathered);
    for (const LayerSlope& part : parts)
      linear_backward_weight(me, part.gradients.weight, part.gradients.bias, part.dy, whole, rows);
  };
  linear_backward_input(me, dwhole, parts[0].dy, parts[0].values.weight, rows);
  const std::size_t out = parts[1].dy.size() / rows, in = dwhole.size() / rows;
  matmul(me, matrix(dwhole, rows, in), matrix(parts[1].dy, rows, out), matrix(parts[1].values.weight, out, in),
         Into::accumulate);
  if (behind) {
    const Ticket scattered = run([dx, dwhole, scatter](Rank queue) { scatter_rows(queue, dx, dwhole, scatter); });
    weights();
    me.wait(scattered);
  } else {
    weights();
    scatter_rows(me, dx, dwhole, scatter);
  }
  // lab end
}

}  // namespace lockstep::week23
