// Base of a process's endpoints: ordered batches of one (group, queue), and their traffic. The backend moves them.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/rank.hpp"
#include "common/runtime/ledger/ledger.hpp"
#include "common/runtime/processes/wait_table.hpp"

namespace lockstep::processes {

struct TransferBatchCore {
  std::uint64_t number = 0;
  Location where{};
  std::vector<Transfer> transfers;  // keep their memory alive until the queue waits
  const char* region = nullptr;     // the collective it is part of
};

/// Unfinished transfers of the running batch, for the wait table.
struct Outstanding {
  std::uint64_t number = 0;  // number of the batch; 0: none
  Location where{};
  const char* region = nullptr;
  std::string words;
  int peer = -1;           // world rank; prefers receives, because a send may only be slow
  bool computing = false;  // its memory is not ready because the GPU is working

  void add(Transfer::Kind kind, std::size_t bytes, int with) {
    const bool sends = kind == Transfer::Kind::send;
    if (peer < 0 || !sends) peer = with;
    if (!words.empty()) words += ", ";
    words += fmt::format("{} {} bytes {} rank {}", sends ? "sends" : "receives", bytes, sends ? "to" : "from", with);
  }
};

template <std::derived_from<TransferBatchCore> BackendTransferBatch>
class EndpointCore {
 public:
  using TransferBatch = BackendTransferBatch;

  /// `queue_name` is the queue's name, the same on every member. `members` are world ranks.
  EndpointCore(int group, int queue, const std::string& queue_name, std::vector<int> members)
      : group_(group),
        queue_(queue),
        members_(std::move(members)),
        id_(endpoint_id(members_, queue_name)),
        traffic_(members_.size()) {}
  EndpointCore(const EndpointCore&) = delete;

  std::uint64_t started() const { return started_; }
  std::uint64_t released() const { return released_; }  ///< number of batches that were waited for and forgotten
  /// The first batch never waited for, or null.
  const TransferBatch* unwaited() const { return batches_.empty() ? nullptr : batches_.front().get(); }

  int group() const { return group_; }
  int queue() const { return queue_; }
  const std::vector<int>& members() const { return members_; }
  std::uint64_t id() const { return id_; }                          ///< the same on every member
  const std::vector<Traffic>& traffic() const { return traffic_; }  ///< by member

 protected:
  ~EndpointCore() = default;

  TransferBatch& add(std::unique_ptr<TransferBatch> fresh, std::span<const Transfer> transfers, Location where,
                     const char* region) {
    fresh->number = ++started_;
    fresh->where = where;
    fresh->transfers.assign(transfers.begin(), transfers.end());
    fresh->region = region;
    for (const Transfer& transfer : transfers) {
      const bool sends = transfer.kind == Transfer::Kind::send;
      Traffic& traffic = traffic_[transfer.peer];
      ++(sends ? traffic.messages_sent : traffic.messages_received);
      (sends ? traffic.bytes_sent : traffic.bytes_received) += transfer.slice.bytes();
    }
    return *batches_.emplace_back(std::move(fresh));
  }
  TransferBatch& numbered(std::uint64_t number) const { return *batches_[number - released_ - 1]; }
  std::unique_ptr<TransferBatch> take_oldest() {
    auto batch = std::move(batches_.front());
    batches_.pop_front();
    ++released_;
    return batch;
  }

  std::deque<std::unique_ptr<TransferBatch>> batches_;  // started and not released

 private:
  int group_;
  int queue_;
  std::vector<int> members_;
  std::uint64_t id_;
  std::vector<Traffic> traffic_;
  std::uint64_t started_ = 0;
  std::uint64_t released_ = 0;
};

}  // namespace lockstep::processes
