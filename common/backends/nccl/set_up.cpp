// Set-up calls over control messages, and the communicators that they make; the beginning and end of a rank.
#include <cstring>
#include <set>

#include "common/backends/nccl/rank.hpp"

namespace lockstep::nccl {

Endpoint& NcclRank::main_of(const Group& group) const {
  std::lock_guard gate(job_.gate);
  return endpoint(group.index, 0);
}

/// Waits until the endpoint is idle: NCCL allows no work of a communicator in flight during a split.
void NcclRank::wait_for_endpoint(Endpoint& of, const char* verb, Location where) {
  wait_until(*queues_[0], {.kind = Doing::Kind::sets_up, .operation = verb, .where = where}, [&] {
    std::lock_guard gate(job_.gate);
    advance_endpoints();
    return of.idle();
  });
}

std::shared_ptr<Communicator> NcclRank::split_communicator(const Group& parent, int color, const Group* made,
                                                           const std::string& queue, const char* verb, Location where) {
  Endpoint& main = main_of(parent);
  wait_for_endpoint(main, verb, where);
  const Label label{.run = job_.run, .key = key_of(parent.members, verb, parent.set_ups)};
  const Reservation here(job_, main);
  return communicators_.split(*main.communicator(), label, color, made ? made->rank : 0,
                              made ? made->members : std::vector<int>{}, queue, job_.limit());
}

std::unique_ptr<Endpoint> NcclRank::connect(const Group& of, int queue, Location where) {
  return new_endpoint(split_communicator(of, 0, &of, queues_[queue]->name, "stream", where), of.index, queue);
}

std::unique_ptr<Endpoint> NcclRank::connect_split(const Group& parent, const SetUp& mine, const Group* made,
                                                  Location where) {
  auto communicator = split_communicator(parent, mine.color, made, queues_[0]->name, "split", where);
  return made ? new_endpoint(std::move(communicator), made->index, 0) : nullptr;
}

std::unique_ptr<Endpoint> NcclRank::new_endpoint(std::shared_ptr<Communicator> communicator, int group, int queue) {
  std::set<const Communicator*> all{communicator.get()};
  for (const Endpoint* each : all_endpoints_) all.insert(each->communicator().get());  // only main changes them
  communicators_.note(all, queue_count_);
  return std::make_unique<Endpoint>(job_, std::move(communicator), group, queue);
}

std::vector<SetUp> NcclRank::all_calls(const Group& of, const SetUp& mine, Location where) {
  const Label label{.run = job_.run, .key = key_of(of.members, "set-up", mine.call)};
  Queue& main = *queues_[0];
  main.set_doing({.kind = Doing::Kind::sets_up, .operation = mine.is_split ? "split" : "stream", .where = where});
  job_.working.fetch_sub(1);
  const auto texts =
      all_gather(job_.control, label, of.members, std::string(reinterpret_cast<const char*>(&mine), sizeof mine),
                 [this] { return job_.failed.load(); });
  job_.working.fetch_add(1);
  main.set_doing({.kind = Doing::Kind::own_code, .where = where});
  if (texts.empty()) throw Unwind{};
  std::vector<SetUp> all(texts.size());
  for (std::size_t member = 0; member < all.size(); ++member)
    std::memcpy(static_cast<void*>(&all[member]), texts[member].data(), sizeof(SetUp));
  return all;
}

NcclRank::NcclRank(std::unique_ptr<Job> job, Communicators& communicators, cuda::DeviceMemory& memory,
                   cuda::Staging& staging, const cuda::DeviceSupplies& supplies,
                   std::function<void(const std::string&)> end_job)
    : RankCore(std::move(job)),
      communicators_(communicators),
      memory_(memory),
      staging_(staging),
      supplies_(supplies),
      end_job_(std::move(end_job)),
      watch_(
          job_,
          [this] {
            std::lock_guard gate(job_.gate);
            return describe_queues();
          },
          end_job_) {
  watcher_ = std::thread([this] { keep_watch(); });
}

NcclRank::~NcclRank() { shut_down(); }

void NcclRank::shut_down() {
  if (!watcher_.joinable()) return;
  stop_watching_ = true;
  watcher_.join();
  // Holders of memory must return it while this rank exists.
  stop_queues();
  drop_closures();
  for (Endpoint* each : all_endpoints_) each->drop();
}

}  // namespace lockstep::nccl
