#include "common/gpt/checkpoint/saver.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>

#include "common/error.hpp"

namespace lockstep::checkpoint {

namespace {

template <class F>
std::string failure_of(const F& f) {
  try {
    f();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace

Saver::Saver(Files& files, std::string directory, int rank, int ranks, int keep, std::chrono::milliseconds limit)
    : files_(files), directory_(std::move(directory)), rank_(rank), ranks_(ranks), keep_(keep), limit_(limit) {}

Saver::~Saver() {
  given_up_ = true;
  if (share_.valid()) share_.wait();
  if (commit_.valid()) commit_.wait();
}

void Saver::start(std::string attempt, Share share, Manifest head) {
  attempt_ = std::move(attempt);
  given_up_ = false;
  share_ = std::async(std::launch::async, [this, share = std::move(share)] {
             return failure_of([&] { write_share(files_, attempt_, rank_, share); });
           }).share();
  if (rank_ == 0)
    commit_ = std::async(std::launch::async, [this, head = std::move(head)] { return commit_when_complete(head); });
}

/// False if the save was abandoned.
bool Saver::wait_for_all() {
  using Clock = std::chrono::steady_clock;
  auto pause = std::chrono::milliseconds(1);
  auto last = Clock::now();  // time at which the last rank's file arrived
  for (int before = 0, written = 0; (written = ranks_written(files_, attempt_, ranks_)) < ranks_; before = written) {
    if (given_up_) return false;
    if (!files_.exists(attempt_))
      throw Error(Verdict::fail, fmt::format("{} was removed while it was being written", attempt_));
    if (written > before) last = Clock::now();
    if (Clock::now() - last > limit_)
      throw Error(Verdict::fail,
                  fmt::format("{}: only {} of {} ranks have written their files, and no further rank within {} s",
                              attempt_, written, ranks_, limit_.count() / 1000.0));
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::milliseconds(50));
  }
  return true;
}

std::string Saver::commit_when_complete(const Manifest& head) {
  const auto begin = std::chrono::steady_clock::now();
  seconds_to_complete_ = 0;
  const std::string failure = failure_of([&] {
    if (!wait_for_all()) return files_.remove(attempt_);
    commit(files_, directory_, attempt_, head, ranks_);
    seconds_to_complete_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    prune(files_, directory_, head.step, keep_);
  });
  if (!failure.empty()) failure_of([&] { files_.remove(attempt_); });
  return failure;
}

std::string Saver::failure() const {
  const bool known = share_.valid() && share_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  return known ? share_.get() : "";
}

std::string Saver::wait_for_share() const {
  if (!share_.valid()) return "";
  if (share_.wait_for(limit_) == std::future_status::ready) return share_.get();
  return fmt::format("{} is not written after {} s", attempt_, limit_.count() / 1000.0);
}

std::string Saver::settle(bool all_written) {
  if (!all_written) given_up_ = true;
  share_ = {};
  return commit_.valid() ? commit_.get() : "";
}

}  // namespace lockstep::checkpoint
