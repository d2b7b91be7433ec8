// An endpoint: the ordered batches of one (group, queue), on a communicator of their own.
//
// Batches begin and complete in the order started, one at a time. The job's gate must be held for every call. Waiting
// threads call advance(), and otherwise the progress thread.
#pragma once

#include <mpi.h>

#include <memory>
#include <vector>

#include "common/backends/mpi/queue.hpp"
#include "common/backends/mpi/wire.hpp"
#include "common/runtime/processes/endpoint_core.hpp"
#include "common/runtime/processes/wait_table.hpp"

namespace lockstep::mpi {

/// One message of a batch, when messages carry headers.
struct Message {
  enum class State { waits_for_port, waits_for_header, moves, timed, done };
  State state = State::moves;
  Header header;
  Acknowledgement acknowledgement;
  bool rendezvous = false;
  double complete_at = 0;  // modelled seconds
  MPI_Request head = MPI_REQUEST_NULL;
  MPI_Request acknowledge = MPI_REQUEST_NULL;
  std::vector<MPI_Request> body;
};

struct TransferBatch : processes::TransferBatchCore {
  double issued = 0;  // modelled seconds, as are the next two
  double begin = 0;
  double end = 0;
  std::vector<MPI_Request> requests;  // without headers: all of the batch
  std::vector<Message> messages;      // with headers: one per transfer
};

/// Appends one request for each part of the message.
void post_send(std::vector<MPI_Request>& requests, const void* data, std::size_t bytes, int peer, MPI_Comm comm);
void post_receive(std::vector<MPI_Request>& requests, void* data, std::size_t bytes, int peer, MPI_Comm comm);

class Endpoint final : public processes::EndpointCore<TransferBatch> {
 public:
  using Queue = mpi::Queue;

  /// `queue_name` is the queue's name, the same on every member.
  Endpoint(Job& job, MPI_Comm comm, int group, int queue, const std::string& queue_name, std::vector<int> members);

  /// Adds a batch; it is posted at once if the endpoint is idle. Returns its number.
  std::uint64_t start(std::span<const Transfer> transfers, Location where, const char* region, double issued);
  /// Advances whatever can move; true if the endpoint is empty.
  bool advance();
  bool ready(std::uint64_t number) const { return completed_ >= number; }
  bool idle() const { return completed_ == started(); }
  /// End of batch `number`, which must be complete and not released.
  double end_of(std::uint64_t number) const { return numbered(number).end; }
  /// Earliest time at which the running batch can complete; 0 if unknown.
  double earliest_end() const;
  /// Forgets batches up to `number`, which must be complete, and releases the memory they hold.
  void release(std::uint64_t number);
  /// Forgets all batches and frees the communicator.
  void close();

  /// After a failure: withdraw() cancels receives; abandoned(), called repeatedly, discards whatever arrives and
  /// returns true once none of our messages is in flight.
  void withdraw();
  bool abandoned();
  /// Waits for one unreceived message and removes it; returns its sender's side in words.
  std::string take_unread(int member);

  processes::Outstanding outstanding();
  /// Adds begun transfers to `row`, and those of the running batch that have not ended and wait for another rank. False
  /// if none waits: the endpoint then makes progress by itself.
  bool count_transfers(processes::Row& row);

  MPI_Comm comm() const { return comm_; }

 private:
  TransferBatch& running() const { return numbered(completed_ + 1); }
  std::string take_message(int source);
  void post(TransferBatch& batch, bool waited_for_its_turn);
  void post_plain(TransferBatch& batch);
  void post_checked(TransferBatch& batch);
  bool finished(TransferBatch& batch);
  bool finished_plain(TransferBatch& batch);
  bool finished_checked(TransferBatch& batch);
  void complete(TransferBatch& batch);

  template <class F>
  void each_request(TransferBatch& batch, F f);
  void send_now(const Transfer& transfer, Message& message);
  bool overtakes(const TransferBatch& batch, std::size_t index) const;
  bool moved(const Transfer& transfer, Message& message);
  void step(TransferBatch& batch, const Transfer& transfer, Message& message);
  void ask_for_port(TransferBatch& batch, const Transfer& transfer, Message& message);
  bool header_matches(const TransferBatch& batch, const Transfer& transfer, const Message& message);
  void header_arrived(TransferBatch& batch, const Transfer& transfer, Message& message);
  Path path_of(const Transfer& transfer) const;
  bool transfer_done(TransferBatch& batch, std::size_t index);
  bool ends_by_itself(const TransferBatch& batch, std::size_t index) const;

  Job& job_;
  MPI_Comm comm_;
  std::vector<std::unique_ptr<TransferBatch>> spare_;
  std::vector<MPI_Status> statuses_;
  std::uint64_t completed_ = 0;
  std::uint64_t posted_ = 0;
  double last_end_ = 0;
};

}  // namespace lockstep::mpi
