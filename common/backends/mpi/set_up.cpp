// The set-up calls: split and stream. Collective over a group; every member's k-th call is compared.
#include <fmt/format.h>

#include <algorithm>

#include "common/backends/mpi/rank.hpp"
#include "common/backends/mpi/status.hpp"
#include "common/devices/cpu/cpu_device.hpp"

namespace lockstep::mpi {

struct MpiRank::PendingSetUp {
  SetUp mine;
  std::vector<SetUp> all;
  std::vector<MPI_Request> sends, receives;  // by peer, without this rank
  const Group* group = nullptr;
};

namespace {
constexpr int kSetUpTag = 4;
constexpr const char* kSetUpLane = "\nset-up";  // no queue's name
}  // namespace

Rank MpiRank::stream(CommunicatorKey at, std::string_view name, Location where) {
  if (!enter(at.queue, where)) return {};
  if (at.queue != 0) usage_error(not_on_main("stream"), where);
  Group& of = group(at.group, where);
  agree(of, processes::stream_call(name, where), where);
  const int queue = queue_named(name);
  open_endpoint(at.group, queue);
  return handle(at.group, queue);
}

Rank MpiRank::split(CommunicatorKey at, int color, int key, Location where) {
  if (!enter(at.queue, where)) return {};
  if (at.queue != 0) usage_error(not_on_main("split"), where);
  Group& of = group(at.group, where);
  const int made = split_groups(of, agree(of, {.is_split = true, .color = color, .key = key}, where));
  if (made < 0) return Rank(*this, -1, 0, -1, 0);
  open_endpoint(made, 0);
  return handle(made, 0);
}

/// Tells the group what this rank calls, and hears what the others do. Point to point, because a collective of MPI
/// cannot be withdrawn when a rank fails.
std::vector<SetUp> MpiRank::agree(Group& of, const SetUp& call, Location where) {
  const int size = static_cast<int>(of.members.size());
  auto fresh = std::make_unique<PendingSetUp>();
  PendingSetUp& pending = *fresh;
  pending.group = &of;
  pending.mine = call;
  processes::copy_text(pending.mine.where, sizeof pending.mine.where, describe(where));
  pending.all.resize(size);
  {
    std::lock_guard gate(job_.gate);
    set_up_ = std::move(fresh);
    pending.mine.call = ++of.set_ups;
    pending.all[of.rank] = pending.mine;
    for (int peer = 0; peer < size; ++peer) {
      if (peer == of.rank) continue;
      pending.receives.push_back(MPI_REQUEST_NULL);
      check(MPI_Irecv(&pending.all[peer], sizeof(SetUp), MPI_BYTE, peer, kSetUpTag, of.comm, &pending.receives.back()));
      pending.sends.push_back(MPI_REQUEST_NULL);
      check(MPI_Isend(&pending.mine, sizeof(SetUp), MPI_BYTE, peer, kSetUpTag, of.comm, &pending.sends.back()));
    }
  }
  auto all = [](std::vector<MPI_Request>& requests) {
    int done = 0;
    check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE));
    return done != 0;
  };
  const Doing doing{.kind = Doing::Kind::sets_up, .operation = call.is_split ? "split" : "stream", .where = where};
  poll_until(
      *queues_[0], doing, [&] { return all(pending.receives) && all(pending.sends); }, [] { return 0.0; });
  job_.note_activity();
  processes::compare(pending.all, of.members);
  return pending.all;
}

/// Makes the groups that these split calls define; returns this rank's, or −1.
int MpiRank::split_groups(Group& parent, const std::vector<SetUp>& calls) {
  const SetUp& mine = calls[parent.rank];
  std::lock_guard gate(job_.gate);
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_split(parent.comm, mine.color >= 0 ? mine.color : MPI_UNDEFINED, mine.key, &comm));
  int made = -1;
  for (const auto& [color, ranks] : processes::by_color(calls)) {
    std::vector<int> members;
    for (int rank : ranks) members.push_back(parent.members[rank]);
    const int index = make_group(members);
    if (color != mine.color) continue;
    made = index;
    if (groups_[made]->comm == MPI_COMM_NULL) {
      groups_[made]->comm = comm;
      MPI_Comm_rank(comm, &groups_[made]->rank);
    } else {
      MPI_Comm_free(&comm);
    }
  }
  return made;
}

int MpiRank::make_group(const std::vector<int>& members) {
  auto [known, fresh] = group_of_members_.try_emplace(members, static_cast<int>(groups_.size()));
  if (fresh) {
    groups_.push_back(std::make_unique<Group>());
    groups_.back()->members = members;
  }
  return known->second;
}

int MpiRank::queue_named(std::string_view name) {
  for (int queue = 0; queue < queue_count_; ++queue)
    if (queues_[queue]->name == name) return queue;
  if (queue_count_ == kQueues) usage_error(fmt::format("a rank has at most {} queues", kQueues));
  std::lock_guard gate(job_.gate);  // the progress thread describes queues
  queues_[queue_count_] = std::make_unique<Queue>(job_, queue_count_, std::string(name));
  job_.record([&](Recorder& recorder) { recorder.add_queue(std::string(name)); });
  if (queue_count_ == 0)
    queues_[0]->adopt_this_thread();
  else
    queues_[queue_count_]->begin_thread();
  return queue_count_++;
}

void MpiRank::open_endpoint(int of, int queue) {
  std::lock_guard gate(job_.gate);
  auto& endpoints = endpoints_[queue];
  if (static_cast<std::size_t>(of) >= endpoints.size()) endpoints.resize(of + 1);
  if (endpoints[of]) return;
  MPI_Comm comm = groups_[of]->comm;
  if (queue != 0) check(MPI_Comm_dup(groups_[of]->comm, &comm));
  endpoints[of] = std::make_unique<Endpoint>(job_, comm, of, queue, queues_[queue]->name, groups_[of]->members);
  all_endpoints_.push_back(endpoints[of].get());
}

void MpiRank::withdraw_set_up() {
  if (!set_up_) return;
  for (MPI_Request& request : set_up_->receives)
    if (request != MPI_REQUEST_NULL) MPI_Cancel(&request);
}

bool MpiRank::count_set_ups(Row& row) {
  for (const auto& each : groups_) {
    if (each->set_ups == 0) continue;
    const auto calls = static_cast<std::uint64_t>(each->set_ups);
    row.begun.push_back({processes::endpoint_id(each->members, kSetUpLane), -1, calls, calls});
  }
  if (!set_up_) return false;
  const Group& group = *set_up_->group;
  const std::size_t before = row.unfinished.size();
  for (int peer = 0, i = 0; peer < static_cast<int>(group.members.size()); ++peer) {
    if (peer == group.rank) continue;
    int done = 0;
    MPI_Request_get_status(set_up_->receives[i++], &done, MPI_STATUS_IGNORE);
    if (done) continue;
    row.unfinished.push_back({processes::endpoint_id(group.members, kSetUpLane), group.members[peer],
                              processes::Unfinished::Kind::set_up, static_cast<std::uint64_t>(group.set_ups)});
  }
  return row.unfinished.size() > before;
}

bool MpiRank::set_up_abandoned() {
  if (!set_up_) return true;
  bool all = true;
  for (auto* requests : {&set_up_->receives, &set_up_->sends}) {
    int done = 0;
    MPI_Testall(static_cast<int>(requests->size()), requests->data(), &done, MPI_STATUSES_IGNORE);
    all = all && done != 0;
  }
  return all;
}

MpiRank::MpiRank(Job& job) : job_(job) {
  device_ = make_cpu_device(job.options.threads > 0 ? job.options.threads : std::max(1, job.cores_per_rank));
  queue_named("main");
  std::vector<int> everyone(job.ranks);
  for (int rank = 0; rank < job.ranks; ++rank) everyone[rank] = rank;
  Group& world = *groups_[make_group(everyone)];
  world.rank = job.rank;
  check(MPI_Comm_dup(job.comm, &world.comm));
  check(MPI_Comm_dup(job.comm, &control_comm_));
  open_endpoint(0, 0);
  control_ = std::make_unique<Control>(job, control_comm_, [this] { return describe_me(); });
  job_.working = 1;
  job_.note_activity();
  progress_ = std::thread([this] { make_progress(); });
}

MpiRank::~MpiRank() {
  {
    std::lock_guard lock(progress_mutex_);
    progress_stop_ = true;
  }
  progress_wake_.notify_all();
  progress_.join();
  for (int queue = 0; queue < queue_count_; ++queue) queues_[queue]->stop();
  for (int queue = 0; queue < queue_count_; ++queue) queues_[queue]->clear();
  control_.reset();
  MPI_Comm_free(&control_comm_);
  for (Endpoint* each : all_endpoints_) {
    each->release(each->started());
    MPI_Comm comm = each->comm();
    if (each->queue() != 0) MPI_Comm_free(&comm);
  }
  for (auto& each : groups_)
    if (each->comm != MPI_COMM_NULL) MPI_Comm_free(&each->comm);
}

}  // namespace lockstep::mpi
