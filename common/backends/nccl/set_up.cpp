// The set-up calls: split and stream. Collective over a group; every member's k-th call is compared.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "common/backends/nccl/rank.hpp"

namespace lockstep::nccl {

namespace {
/// While main splits a endpoint's communicator, the watching thread leaves it alone.
class Splitting {
 public:
  Splitting(Job& job, Endpoint& endpoint) : job_(job), endpoint_(endpoint) { set(true); }
  Splitting(const Splitting&) = delete;
  ~Splitting() { set(false); }

 private:
  void set(bool splitting) {
    std::lock_guard gate(job_.gate);
    endpoint_.set_splitting(splitting);
  }
  Job& job_;
  Endpoint& endpoint_;
};
}  // namespace

Rank NcclRank::stream(CommunicatorKey at, std::string_view name, Location where) {
  if (!enter(at.queue, where)) return {};
  if (at.queue != 0) usage_error(not_on_main("stream"), where);
  Group& of = group(at.group, where);
  agree(of, processes::stream_call(name, where), where);
  const int queue = queue_named(name);
  if (queue != 0) {
    wait_for_endpoint(*of.main, "stream", where);
    const Label label{.run = job_->run, .key = key_of(of.members, "stream", of.set_ups)};
    const Splitting here(*job_, *of.main);
    open_endpoint(at.group, queue,
                  communicators_.split(*of.main->communicator(), label, 0, of.rank, of.members, std::string(name),
                                       job_->limit()));
  }
  return handle(at.group, queue);
}

Rank NcclRank::split(CommunicatorKey at, int color, int key, Location where) {
  if (!enter(at.queue, where)) return {};
  if (at.queue != 0) usage_error(not_on_main("split"), where);
  Group& of = group(at.group, where);
  const std::vector<SetUp> calls = agree(of, {.is_split = true, .color = color, .key = key}, where);
  wait_for_endpoint(*of.main, "split", where);
  const int made = split_groups(of, calls, {.run = job_->run, .key = key_of(of.members, "split", of.set_ups)});
  if (made < 0) return Rank(*this, -1, 0, -1, 0);
  return handle(made, 0);
}

/// NCCL wants nothing of a communicator to be on its way while it is split.
void NcclRank::wait_for_endpoint(Endpoint& of, const char* verb, Location where) {
  wait_until(*queues_[0], {.kind = Doing::Kind::sets_up, .operation = verb, .where = where}, [&] {
    std::lock_guard gate(job_->gate);
    advance_endpoints();
    return of.idle();
  });
}

/// Tells the group what this rank calls, and hears what the others do.
std::vector<SetUp> NcclRank::agree(Group& of, const SetUp& call, Location where) {
  SetUp mine = call;
  mine.call = ++of.set_ups;
  processes::copy_text(mine.where, sizeof mine.where, describe(where));
  const Label label{.run = job_->run, .key = key_of(of.members, "set-up", mine.call)};
  Queue& main = *queues_[0];
  main.set_doing({.kind = Doing::Kind::sets_up, .operation = call.is_split ? "split" : "stream", .where = where});
  job_->working.fetch_sub(1);
  const auto texts =
      all_gather(job_->control, label, of.members, std::string(reinterpret_cast<const char*>(&mine), sizeof mine),
                 [this] { return job_->failed.load(); });
  job_->working.fetch_add(1);
  main.set_doing({.kind = Doing::Kind::own_code, .where = where});
  if (texts.empty()) throw Unwind{};
  std::vector<SetUp> all(texts.size());
  for (std::size_t member = 0; member < all.size(); ++member)
    std::memcpy(static_cast<void*>(&all[member]), texts[member].data(), sizeof(SetUp));
  processes::compare(all, of.members);
  return all;
}

/// Makes the groups that these split calls define; returns this rank's, or −1.
int NcclRank::split_groups(Group& parent, const std::vector<SetUp>& calls, Label label) {
  const int color = calls[parent.rank].color;
  int made = -1, place = 0;
  for (const auto& [each, ranks] : processes::by_color(calls)) {
    std::vector<int> members;
    for (int rank : ranks) members.push_back(parent.members[rank]);
    const int index = make_group(members);
    if (each != color) continue;
    made = index;
    place = static_cast<int>(std::find(ranks.begin(), ranks.end(), parent.rank) - ranks.begin());
  }
  const std::vector<int> members = made < 0 ? std::vector<int>{} : groups_[made]->members;
  const Splitting here(*job_, *parent.main);
  const auto communicator =
      communicators_.split(*parent.main->communicator(), label, color, place, members, "main", job_->limit());
  if (made < 0) return made;
  groups_[made]->rank = place;
  open_endpoint(made, 0, communicator);
  return made;
}

int NcclRank::make_group(const std::vector<int>& members) {
  auto [known, fresh] = group_of_members_.try_emplace(members, static_cast<int>(groups_.size()));
  if (fresh) {
    groups_.push_back(std::make_unique<Group>());
    groups_.back()->members = members;
  }
  return known->second;
}

int NcclRank::queue_named(std::string_view name) {
  const int count = queue_count_;
  for (int queue = 0; queue < count; ++queue)
    if (queues_[queue]->name == name) return queue;
  if (count == kQueues) usage_error(fmt::format("a rank has at most {} queues", kQueues));
  queues_[count] = std::make_unique<Queue>(*job_, count, std::string(name));
  job_->record([&](Recorder& recorder) { recorder.add_queue(std::string(name)); });
  Queue& queue = *queues_[count];
  queue.closure_begins = [this, count] {
    if (std::this_thread::get_id() == main_thread_) inline_queue_ = count;
  };
  queue.closure_ends = [this, &queue] {
    if (!job_->failed) end_stretch(queue);
    if (std::this_thread::get_id() == main_thread_) inline_queue_ = 0;
  };
  if (count != 0 && job_->checked()) queue.begin_thread();
  queue_count_ = count + 1;
  return count;
}

void NcclRank::open_endpoint(int of, int queue, std::shared_ptr<Communicator> communicator) {
  std::lock_guard gate(job_->gate);
  auto& endpoints = endpoints_[queue];
  if (static_cast<std::size_t>(of) >= endpoints.size()) endpoints.resize(of + 1);
  if (endpoints[of]) return;
  endpoints[of] = std::make_unique<Endpoint>(*job_, std::move(communicator), of, queue);
  all_endpoints_.push_back(endpoints[of].get());
  if (queue == 0) groups_[of]->main = endpoints[of].get();
}

void NcclRank::open_world() {
  const int world = make_group(job_->everyone);
  groups_[world]->rank = job_->rank;
  open_endpoint(world, 0, communicators_.world(job_->run, job_->ranks, job_->limit()));
}

NcclRank::NcclRank(std::unique_ptr<Job> job, Communicators& communicators, cuda::DeviceMemory& memory,
                   cuda::Staging& staging, std::function<void(const std::string&)> end_job)
    : job_(std::move(job)),
      communicators_(communicators),
      memory_(memory),
      staging_(staging),
      end_job_(std::move(end_job)),
      watch_(
          *job_, [this] { return describe_me(); }, end_job_) {
  queue_named("main");
  job_->working = 1;
  job_->note_activity();
  watcher_ = std::thread([this] { keep_watch(); });
}

NcclRank::~NcclRank() {
  stop_watching_ = true;
  watcher_.join();
  for (int queue = 0; queue < queue_count_; ++queue) queues_[queue]->stop();
}

}  // namespace lockstep::nccl
