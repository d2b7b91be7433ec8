// The ring all-reduce of 21.2 as a plain MPI program; each rank is a process.
//
//   mpicxx -O3 ring_mpi.cpp -o ring_mpi && mpirun -n 2 ./ring_mpi [NUMBERS]
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <vector>

long n = 1 << 22;  // fp32 numbers of each rank
int p, r;

void ring_all_reduce(std::vector<float>& data, std::vector<float>& scratch) {
  auto begin = [](int chunk) { return n * chunk / p; };
  for (int step = 0; step < 2 * (p - 1); ++step) {  // p − 1 that add, then p − 1 that replace
    const int out = (r - step - 1 + 2 * p) % p, in = (r - step - 2 + 2 * p) % p;
    float* target = step < p - 1 ? scratch.data() : data.data() + begin(in);
    MPI_Request both[2];
    MPI_Irecv(target, begin(in + 1) - begin(in), MPI_FLOAT, (r + p - 1) % p, 0, MPI_COMM_WORLD, &both[0]);
    MPI_Isend(data.data() + begin(out), begin(out + 1) - begin(out), MPI_FLOAT, (r + 1) % p, 0, MPI_COMM_WORLD,
              &both[1]);
    MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
    if (step < p - 1)
      for (long i = begin(in); i < begin(in + 1); ++i) data[i] += scratch[i - begin(in)];
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &r);
  MPI_Comm_size(MPI_COMM_WORLD, &p);
  if (argc > 1) n = std::atol(argv[1]);
  std::vector<float> data(n), scratch(n / p + 1);
  std::vector<double> seconds;
  long wrong = 0;
  for (int turn = 0; turn < 8; ++turn) {  // the first is not timed
    for (long i = 0; i < n; ++i) data[i] = (r + 1) * (r + 1) * (i % 97 + 1);
    MPI_Barrier(MPI_COMM_WORLD);
    double time = -MPI_Wtime();
    ring_all_reduce(data, scratch);
    time += MPI_Wtime();
    MPI_Allreduce(MPI_IN_PLACE, &time, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (turn > 0) seconds.push_back(time);
    for (long i = 0; i < n; ++i) wrong += data[i] != p * (p + 1) * (2 * p + 1) / 6 * (i % 97 + 1);  // Σ (r + 1)²
  }
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  std::sort(seconds.begin(), seconds.end());
  const double time = seconds[seconds.size() / 2];
  if (r == 0)
    std::printf("MPI: %d ranks, %ld bytes, %s; median %.3f ms, busbw %.2f GB/s\n", p, 4 * n, wrong ? "WRONG" : "right",
                time * 1e3, 2.0 * (p - 1) / p * 4 * n / time / 1e9);
  MPI_Finalize();
  return wrong != 0;
}
