// Fibers as threads that pass a baton: slower, but ASan, TSan and gdb see ordinary threads.
#include <semaphore>
#include <thread>

#include "common/sim/fiber.hpp"

namespace lockstep {

struct Fiber::State {
  std::function<void()> body;
  std::binary_semaphore inside{0};
  std::binary_semaphore outside{0};
  std::thread thread;
  bool started = false;
  bool ended = false;
};

Fiber::Fiber(std::size_t, std::function<void()> body) : state_(std::make_unique<State>()) {
  state_->body = std::move(body);
}

Fiber::~Fiber() {
  if (state_->thread.joinable()) state_->thread.join();
}

void Fiber::resume() {
  State* state = state_.get();
  if (!state->started) {
    state->started = true;
    state->thread = std::thread([state] {
      state->inside.acquire();
      state->body();
      state->ended = true;
      state->outside.release();
    });
  }
  state->inside.release();
  state->outside.acquire();
}

void Fiber::suspend() {
  state_->outside.release();
  state_->inside.acquire();
}
bool Fiber::started() const { return state_->started; }
bool Fiber::ended() const { return state_->ended; }

}  // namespace lockstep
