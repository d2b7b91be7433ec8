#include "tools/train/expert_layers.hpp"

#include <algorithm>

#include "common/gpt/model/layers.hpp"
#include "labs/week23_tensor_parallel/expert_capacity.hpp"

namespace lockstep::train {

namespace {

using P = BlockPart;

/// State that one block keeps from its forward pass.
struct Mixture {
  week23::Routing routing;
  week23::ExpertsSaved saved;
};

class ExpertLayers final : public Layers {
 public:
  ExpertLayers(Rank group, const GptConfig& config, ExpertLimits limits, bool even)
      : ep_{group, config.architecture.experts, config.architecture.top_k, config.d_model, config.mlp_width()},
        limits_(limits),
        even_(even) {}

  void mlp_forward(Rank me, const BlockShape& shape, const BlockTensors& values, BlockActivations& saved,
                   Slice y) const override {
    const Slice logits = me.allocate(shape.rows() * ep_.experts, DType::f32, Category::buffer);
    linear(me, logits, saved.norm2, values[P::router_weight], {}, shape.rows());
    week23::Routing routing = week23::route(to_host(me, logits), ep_.experts, ep_.k);
    if (even_) spread(routing);
    const auto mixture = std::make_shared<Mixture>(Mixture{routing, saved_for(routing, shape.rows())});
    week23::experts_forward(ep_, experts_in(values), mixture->saved, std::move(y), saved.norm2);
    saved.more = mixture;
  }

  void mlp_backward(Rank me, const BlockShape& shape, const BlockTensors& values, const BlockTensors& gradients,
                    const BlockActivations& saved, BackwardScratch&, Slice dx, Slice dy,
                    const BlockPartReady& ready) const override {
    const auto mixture = std::static_pointer_cast<Mixture>(saved.more);
    const std::size_t rows = shape.rows(), c = ep_.channels;
    const Scope region = me.region(kMixtureBackward, leaving(mixture->saved.plan) * c * sizeof(float));
    const Slice dweights = me.allocate(rows * ep_.k, DType::f32, Category::buffer);
    const Slice dlogits = me.allocate(rows * ep_.experts, DType::f32, Category::buffer);
    {
      const Scope own = me.region(kExpertsBackward, mixture->saved.input.size() * sizeof(float));
      week23::experts_backward(ep_, experts_in(values), experts_in(gradients), mixture->saved, dx, dweights,
                               std::move(dy));
    }
    upload(me, dlogits, logit_gradient(mixture->routing, to_host(me, dweights), rows));
    linear_backward_weight(me, gradients[P::router_weight], {}, dlogits, saved.norm2, rows);
    matmul(me, matrix(dx, rows, c), matrix(dlogits, rows, ep_.experts),
           matrix(values[P::router_weight], ep_.experts, c), Into::accumulate);
    for (const P::Index part : {P::down_weight, P::up_weight, P::router_weight}) ready(part);
    *mixture = {};  // its memory
  }

 private:
  week23::ExpertsSaved saved_for(const week23::Routing& routing, std::size_t rows) const {
    if (even_) return week23::make_saved(ep_, routing, even_plan(routing));
    if (limits_.capacity_factor == 0) return week23::make_saved(ep_, routing);
    return week23::make_saved_within(ep_, routing,
                                     week23::capacity_of(limits_.capacity_factor, rows, ep_.experts, ep_.k));
  }
  std::vector<float> logit_gradient(const week23::Routing& routing, const std::vector<float>& dweights,
                                    std::size_t rows) const {
    std::vector<float> sum = week23::router_gradient(routing, dweights, ep_.experts, ep_.k);
    if (limits_.balance == 0) return sum;
    const std::vector<float> load = week23::load_of(ep_.group, routing.experts, ep_.experts);
    const std::vector<float> of_balance = week23::balance_gradient(routing, load);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += limits_.balance * static_cast<float>(rows) * of_balance[i];
    return sum;
  }
  static week23::ExpertTensors experts_in(const BlockTensors& tensors) {
    return {tensors[P::up_weight], tensors[P::down_weight]};
  }
  void spread(week23::Routing& routing) const {
    for (std::size_t slot = 0; slot < routing.experts.size(); ++slot)
      routing.experts[slot] = static_cast<std::int32_t>(slot % ep_.experts);
  }
  /// Every rank sends as this one does.
  week23::RowPlan even_plan(const week23::Routing& routing) const {
    const week23::Grouping sent = week23::group_by_expert(routing.experts, ep_.experts);
    const std::size_t first = static_cast<std::size_t>(ep_.group.rank()) * ep_.own();
    std::vector<std::size_t> counts;
    for (std::size_t i = 0; i < ep_.experts; ++i) counts.push_back(sent.counts[first + i % ep_.own()]);
    return week23::plan_rows(ep_, sent, counts);
  }
  std::size_t leaving(const week23::RowPlan& plan) const {
    return plan.leaving() - plan.to_rank[static_cast<std::size_t>(ep_.group.rank())];
  }

  week23::ExpertParallel ep_;
  ExpertLimits limits_;
  bool even_;
};

/// The replicas are one group that shares the experts, so nobody else has this rank's.
void average(Rank dp, Rank alone, const Parameters& all) {
  const auto first = std::find_if(all.list.begin(), all.list.end(), [](const Parameter& p) { return p.cut; });
  week23::average_gradients(dp, alone, all.gradients.cut(0, first->offset),
                            all.gradients.cut(first->offset, all.count() - first->offset));
}

}  // namespace

GptConfig tiny_mixture() {
  GptConfig model = gpt_preset("tiny");
  model.architecture.experts = 4;
  model.architecture.top_k = 2;
  return model;
}

week25::MixtureCode mixture_code(ExpertLimits limits) {
  const auto layers = [limits](Rank group, const GptConfig& config) {
    return std::make_shared<ExpertLayers>(group, config, limits, false);
  };
  return {layers, average};
}
week25::MixtureCode even_mixture_code() {
  const auto layers = [](Rank group, const GptConfig& config) {
    return std::make_shared<ExpertLayers>(group, config, ExpertLimits{}, true);
  };
  return {layers, average};
}

}  // namespace lockstep::train
