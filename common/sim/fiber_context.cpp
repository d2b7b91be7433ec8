// Fibers on Boost.Context, with a guard page below each stack.
#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>

#include "common/sim/fiber.hpp"

namespace lockstep {

namespace context = boost::context;

struct Fiber::State {
  std::function<void()> body;
  std::size_t stack_bytes = 0;
  context::fiber inside;   // the body, while it is suspended
  context::fiber outside;  // the scheduler, while the body runs
  bool started = false;
  bool ended = false;
};

Fiber::Fiber(std::size_t stack_bytes, std::function<void()> body) : state_(std::make_unique<State>()) {
  state_->body = std::move(body);
  state_->stack_bytes = stack_bytes;
}

Fiber::~Fiber() = default;

void Fiber::resume() {
  State* state = state_.get();
  if (!state->started) {
    state->started = true;
    context::protected_fixedsize_stack stack(state->stack_bytes);
    state->inside = context::fiber(std::allocator_arg, stack, [state](context::fiber&& scheduler) {
      state->outside = std::move(scheduler);
      state->body();
      state->ended = true;
      return std::move(state->outside);
    });
  }
  state->inside = std::move(state->inside).resume();
}

void Fiber::suspend() { state_->outside = std::move(state_->outside).resume(); }
bool Fiber::started() const { return state_->started; }
bool Fiber::ended() const { return state_->ended; }

}  // namespace lockstep
