// MPI as the first meeting place. Afterwards it is idle: data moves over NCCL, control messages over TCP.
#include "common/backends/mpi/gather.hpp"
#include "common/backends/mpi/status.hpp"
#include "common/backends/nccl/bootstrap.hpp"

namespace lockstep::nccl {

namespace {

class MpiBootstrap final : public Bootstrap {
 public:
  MpiBootstrap() {
    int provided = 0;
    mpi::check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~MpiBootstrap() override { MPI_Finalize(); }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::vector<std::string> all_gather(const std::string& mine) override { return mpi::gather(MPI_COMM_WORLD, mine); }

 private:
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace

std::unique_ptr<Bootstrap> make_mpi_bootstrap() { return std::make_unique<MpiBootstrap>(); }

}  // namespace lockstep::nccl
