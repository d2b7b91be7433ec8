// Set-up calls over MPI, and the communicators that they make; the beginning and end of a rank.

#include <algorithm>

#include "common/backends/mpi/rank.hpp"
#include "common/backends/mpi/status.hpp"
#include "common/devices/cpu/cpu_device.hpp"

namespace lockstep::mpi {

struct MpiRank::PendingSetUp {
  SetUp mine;
  std::vector<SetUp> all;
  std::vector<MPI_Request> sends, receives;  // by peer, excluding this rank
  const Group* group = nullptr;
};

namespace {
constexpr int kSetUpTag = 4;
constexpr const char* kSetUpQueue = "\nset-up";  // not a possible queue name
}  // namespace

/// Exchanges set-up calls with the group, point to point: an MPI collective cannot be cancelled when a rank fails.
std::vector<SetUp> MpiRank::all_calls(const Group& of, const SetUp& mine, Location where) {
  const int size = static_cast<int>(of.members.size());
  auto fresh = std::make_unique<PendingSetUp>();
  PendingSetUp& pending = *fresh;
  pending.group = &of;
  pending.mine = mine;
  pending.all.resize(size);
  pending.all[of.rank] = mine;
  {
    std::lock_guard gate(job_.gate);
    set_up_ = std::move(fresh);
    MPI_Comm comm = comm_of(of);
    for (int peer = 0; peer < size; ++peer) {
      if (peer == of.rank) continue;
      pending.receives.push_back(MPI_REQUEST_NULL);
      check(MPI_Irecv(&pending.all[peer], sizeof(SetUp), MPI_BYTE, peer, kSetUpTag, comm, &pending.receives.back()));
      pending.sends.push_back(MPI_REQUEST_NULL);
      check(MPI_Isend(&pending.mine, sizeof(SetUp), MPI_BYTE, peer, kSetUpTag, comm, &pending.sends.back()));
    }
  }
  auto all = [](std::vector<MPI_Request>& requests) {
    int done = 0;
    check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE));
    return done != 0;
  };
  const Doing doing{.kind = Doing::Kind::sets_up, .operation = mine.is_split ? "split" : "stream", .where = where};
  poll_until(
      *queues_[0], doing, [&] { return all(pending.receives) && all(pending.sends); }, [] { return 0.0; });
  job_.note_activity();
  return pending.all;
}

std::unique_ptr<Endpoint> MpiRank::connect(const Group& of, int queue, Location) {
  std::lock_guard gate(job_.gate);
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_dup(comm_of(of), &comm));
  return std::make_unique<Endpoint>(job_, comm, of.index, queue, queues_[queue]->name, of.members);
}

std::unique_ptr<Endpoint> MpiRank::connect_split(const Group& parent, const SetUp& mine, const Group* made, Location) {
  std::lock_guard gate(job_.gate);
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_split(comm_of(parent), made ? mine.color : MPI_UNDEFINED, mine.key, &comm));
  if (!made) return nullptr;
  if (has_endpoint(made->index, 0)) {
    MPI_Comm_free(&comm);
    return nullptr;
  }
  return std::make_unique<Endpoint>(job_, comm, made->index, 0, queues_[0]->name, made->members);
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
    row.begun.push_back({processes::endpoint_id(each->members, kSetUpQueue), -1, calls, calls});
  }
  if (!set_up_) return false;
  const Group& group = *set_up_->group;
  const std::size_t before = row.unfinished.size();
  for (int peer = 0, i = 0; peer < static_cast<int>(group.members.size()); ++peer) {
    if (peer == group.rank) continue;
    int done = 0;
    MPI_Request_get_status(set_up_->receives[i++], &done, MPI_STATUS_IGNORE);
    if (done) continue;
    row.unfinished.push_back({processes::endpoint_id(group.members, kSetUpQueue), group.members[peer],
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

MpiRank::MpiRank(std::unique_ptr<Job> job) : RankCore(std::move(job)) {
  device_ = make_cpu_device(job_.options.threads > 0 ? job_.options.threads : std::max(1, job_.cores_per_rank));
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_dup(job_.comm, &comm));
  add_endpoint(std::make_unique<Endpoint>(job_, comm, 0, 0, queues_[0]->name, groups_[0]->members));
  check(MPI_Comm_dup(job_.comm, &control_comm_));
  control_ = std::make_unique<Control>(job_, control_comm_, [this] { return describe_me(); });
  progress_ = std::thread([this] { make_progress(); });
}

MpiRank::~MpiRank() { shut_down(); }

void MpiRank::shut_down() {
  if (!progress_.joinable()) return;
  {
    std::lock_guard lock(progress_mutex_);
    progress_stop_ = true;
  }
  progress_wake_.notify_all();
  progress_.join();
  stop_queues();
  drop_closures();
  control_.reset();
  MPI_Comm_free(&control_comm_);
  for (Endpoint* each : all_endpoints_) each->close();
}

}  // namespace lockstep::mpi
