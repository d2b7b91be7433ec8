// Stacks for the threads of one block: switched directly from one to another, kept for the next block.
#pragma once

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <functional>
#include <vector>

#include "common/testing/fakes/cuda/stack_watch.hpp"

namespace lockstep::fake {

/// A set of stacks, of which at most one runs. Number kOutside is the caller's own.
class Stacks {
 public:
  static constexpr int kOutside = -1;

  /// Every stack runs `body` when it is first switched to; `body` never returns.
  explicit Stacks(std::function<void()> body) : body_(std::move(body)) {}

  ~Stacks() { clear(); }
  Stacks(const Stacks&) = delete;

  int running() const { return running_; }

  /// Adds a stack on which nothing has begun, and returns its number.
  int add() {
    suspended_.emplace_back();
    top_.push_back(nullptr);
    watched_.emplace_back();
    return static_cast<int>(suspended_.size()) - 1;
  }

  void reserve(std::size_t count) {
    suspended_.reserve(count);
    top_.reserve(count);
    watched_.reserve(count);
  }

  /// End of the memory of a stack that has begun.
  char* top(int stack) const { return top_[stack]; }

  /// Resumes stack `next`; returns when a stack switches back to the caller's.
  void switch_to(int next) {
    if (next == running_) return;
    if (next != kOutside && !top_[next]) begin(next);
    left_ = running_;
    running_ = next;
    const Arrival here{*this, left_};
    leave_stack(watched(left_), watched(next));
    boost::context::fiber from = std::move(of(next)).resume();
    of(left_) = std::move(from);
  }

  /// Unwinds the function suspended on a stack. clear: on all stacks, and removes them. Only from outside.
  void forget(int stack) {
    if (!suspended_[stack]) return;
    const WatchedStack where = watched_[stack];
    left_ = kOutside;
    leave_stack(outside_watched_, watched_[stack]);
    suspended_[stack] = {};
    leave_stack(watched_[stack], outside_watched_);  // it has left at its end
    enter_stack(outside_watched_, watched_[stack]);
    clear_stack(where);
  }
  /// Abandons the function suspended on a stack without unwinding it.
  void leave(int stack) {
    static auto& left = *new std::vector<boost::context::fiber>;  // never destroyed
    left.push_back(std::move(suspended_[stack]));
  }
  void clear() {
    for (std::size_t stack = 0; stack < suspended_.size(); ++stack) forget(static_cast<int>(stack));
    suspended_.clear();
    top_.clear();
    watched_.clear();
  }

 private:
#if defined(__SANITIZE_ADDRESS__)
  static constexpr std::size_t kBytes = 256 * 1024;
#else
  static constexpr std::size_t kBytes = 64 * 1024;
#endif
  static constexpr int kColors = 24, kLine = 64;  // without a shift, all stacks' tops would compete for the same cache
                                                  // lines

  /// Marks the return to stack `mine`, also when the switch throws to unwind its caller.
  struct Arrival {
    Stacks& all;
    int mine;
    ~Arrival() { enter_stack(all.watched(mine), all.watched(all.left_)); }
  };

  WatchedStack& watched(int stack) { return stack == kOutside ? outside_watched_ : watched_[stack]; }
  boost::context::fiber& of(int stack) { return stack == kOutside ? outside_ : suspended_[stack]; }

  void begin(int stack) {
    boost::context::protected_fixedsize_stack allocator(kBytes);
    const boost::context::stack_context whole = allocator.allocate();
    const std::size_t shift = static_cast<std::size_t>(stack % kColors) * kLine;
    top_[stack] = static_cast<char*>(whole.sp) - shift;
    watched_[stack] = {static_cast<char*>(whole.sp) - whole.size, whole.size};
    clear_stack(watched_[stack]);
    const boost::context::preallocated part(top_[stack], whole.size - shift, whole);
    suspended_[stack] =
        boost::context::fiber(std::allocator_arg, part, allocator, [this, stack](boost::context::fiber&& from) {
          enter_stack(watched_[stack], watched(left_));
          of(left_) = std::move(from);
          body_();
          return boost::context::fiber();
        });
  }

  std::function<void()> body_;
  std::vector<boost::context::fiber> suspended_;
  std::vector<char*> top_;
  std::vector<WatchedStack> watched_;  // their locations, for AddressSanitizer
  WatchedStack outside_watched_;
  boost::context::fiber outside_;
  int running_ = kOutside;
  int left_ = kOutside;  // the stack that switched last
};

}  // namespace lockstep::fake
