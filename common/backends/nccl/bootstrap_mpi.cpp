// MPI as the first meeting place. Afterwards it is idle: data moves by NCCL, the runtime's own control messages by TCP.
#include <fmt/format.h>
#include <mpi.h>

#include "common/backends/nccl/bootstrap.hpp"
#include "common/error.hpp"

namespace lockstep::nccl {

namespace {

void check(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw Error(Verdict::fail, fmt::format("{}: {}", call, std::string(text, length)));
}

class MpiBootstrap final : public Bootstrap {
 public:
  MpiBootstrap() {
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~MpiBootstrap() override { MPI_Finalize(); }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::vector<std::string> all_gather(const std::string& mine) override {
    const int length = static_cast<int>(mine.size());
    std::vector<int> lengths(size_), offsets(size_);
    check(MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, MPI_COMM_WORLD), "MPI_Allgather");
    int total = 0;
    for (int rank = 0; rank < size_; ++rank) {
      offsets[rank] = total;
      total += lengths[rank];
    }
    std::string joined(total, '\0');
    check(MPI_Allgatherv(mine.data(), length, MPI_BYTE, joined.data(), lengths.data(), offsets.data(), MPI_BYTE,
                         MPI_COMM_WORLD),
          "MPI_Allgatherv");
    std::vector<std::string> all;
    for (int rank = 0; rank < size_; ++rank) all.push_back(joined.substr(offsets[rank], lengths[rank]));
    return all;
  }

 private:
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace

std::unique_ptr<Bootstrap> make_mpi_bootstrap() { return std::make_unique<MpiBootstrap>(); }

}  // namespace lockstep::nccl
