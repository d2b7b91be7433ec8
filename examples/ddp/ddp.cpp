// Data-parallel training in one program, to start your own from. Each rank is a process, on processors with MPI, or
// with a GPU each and NCCL. The numbers in the comments are those of README.md, which says what each part is for.
//
//   mpicxx -std=c++20 -O3 ddp.cpp -o ddp && mpirun -n 2 ./ddp TEXT [--epochs 1] [--checkpoint FILE] …
//   nvcc -std=c++20 -O3 -x cu ddp.cpp -o ddp -lnccl $(mpicxx -showme:compile) … && mpirun -n 2 ./ddp TEXT
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>
#include <stdexcept>
#ifdef __CUDACC__
#include <nccl.h>

#include "model.cuh"
#else
#include "model.hpp"
#endif

int rank, ranks, local_rank;
std::string text;
std::map<std::string, double> options{
    {"--epochs", 1}, {"--batch", 256}, {"--microbatch", 32}, {"--samples", 1e9},   {"--rate", 0.2},  {"--warmup", 20},
    {"--clip", 1},   {"--seed", 1},    {"--log-every", 10},  {"--save-every", 50}, {"--timeout", 60}};
std::string checkpoint;

// 1. The rendezvous: MPI's. The local rank comes from MPI too, and so is right under every launcher.
void find_place(int& argc, char**& argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm node;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &local_rank);
  MPI_Comm_free(&node);
}

// 2. Sums over all ranks, one bucket at a time, while the host continues.
#ifdef __CUDACC__
void check(ncclResult_t status) {
  if (status != ncclSuccess) throw std::runtime_error(ncclGetErrorString(status));
}

struct Sums {
  ncclComm_t comm;
  cudaStream_t stream;
  cudaEvent_t ready, done;
  Sums() {
    int gpus = 0;
    check(cudaGetDeviceCount(&gpus));
    if (local_rank >= gpus) throw std::runtime_error("there are fewer GPUs than ranks on this node");
    check(cudaSetDevice(local_rank));  // before anything else touches a GPU
    ncclUniqueId id;
    if (rank == 0) check(ncclGetUniqueId(&id));
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    check(ncclCommInitRank(&comm, ranks, id, rank));
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    check(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
    check(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  }
  ~Sums() { cudaStreamSynchronize(stream), ncclCommDestroy(comm), cudaStreamDestroy(stream); }
  void start(float* data, long n) {  // after what the compute stream has been told so far, and beside what follows
    check(cudaEventRecord(ready, 0));
    check(cudaStreamWaitEvent(stream, ready, 0));
    check(ncclAllReduce(data, data, n, ncclFloat, ncclSum, comm, stream));
  }
  void wait() {
    check(cudaEventRecord(done, stream));
    check(cudaStreamWaitEvent(0, done, 0));
  }
};
#else
struct Sums {
  std::vector<MPI_Request> requests;
  void start(float* data, long n) {
    MPI_Iallreduce(MPI_IN_PLACE, data, static_cast<int>(n), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                   &requests.emplace_back());
  }
  void wait() {
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    requests.clear();
  }
};
#endif

// 3. Random numbers that depend on a seed and a place alone: the same on every rank, and after every restart.
std::uint64_t draw(std::uint64_t seed, std::uint64_t place) {
  std::uint64_t z = (seed * 0xD1342543DE82EF95 + place + 1) * 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

// 4. The sampler: an order for each epoch that all ranks agree on without a message. Rank r takes every p-th sample of
// a global batch, so every sample is taken once, on any number of ranks.
std::vector<long> order_of(long epoch, long samples) {
  std::vector<long> order(samples);
  std::iota(order.begin(), order.end(), kContext);
  std::vector<std::uint64_t> key(samples + kContext);
  for (const long sample : order) key[sample] = draw(options["--seed"] * 1000 + epoch + 1, sample);
  std::sort(order.begin(), order.end(), [&](long a, long b) { return key[a] < key[b]; });
  return order;
}

// 5. What is saved: enough to resume in the middle of an epoch, on any number of ranks.
struct State {
  long step = 0, epoch = 0, position = 0;  // position: samples of the epoch that all ranks together have used
  float *parameters = allocate(kParameters), *momentum = allocate(kParameters);
};

void save(const State& state) {
  if (rank != 0 || checkpoint.empty()) return;
  std::vector<float> host(2 * kParameters);
  copy(host.data(), state.parameters, kParameters);
  copy(host.data() + kParameters, state.momentum, kParameters);
  const long where[] = {kParameters, state.step, state.epoch, state.position};
  const std::string part = checkpoint + ".part";
  const int file = open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const long bytes = static_cast<long>(host.size() * sizeof(float));
  const bool written = write(file, where, sizeof where) == sizeof where && write(file, host.data(), bytes) == bytes &&
                       fsync(file) == 0;  // on the disk, before the old one goes
  if (file < 0 || close(file) != 0 || !written || std::rename(part.c_str(), checkpoint.c_str()) != 0)
    throw std::runtime_error("cannot write " + checkpoint);
}

void resume(State& state) {  // rank 0 reads, so that nodes need no common file system
  std::vector<float> host(2 * kParameters);
  long where[4] = {kParameters, 0, 0, 0};
  for (long i = 0; i < kParameters; ++i) host[i] = (draw(options["--seed"], i) >> 40) * 0x1p-24f * 0.2f - 0.1f;
  if (std::ifstream file(checkpoint, std::ios::binary); rank == 0 && file) {
    file.read(reinterpret_cast<char*>(where), sizeof where);
    file.read(reinterpret_cast<char*>(host.data()), static_cast<long>(host.size() * sizeof(float)));
    if (!file || where[0] != kParameters) throw std::runtime_error(checkpoint + " is not a checkpoint of this model");
    std::printf("resumed at step %ld from %s\n", where[1], checkpoint.c_str());
  }
  MPI_Bcast(where, 4, MPI_LONG, 0, MPI_COMM_WORLD);
  MPI_Bcast(host.data(), static_cast<int>(host.size()), MPI_FLOAT, 0, MPI_COMM_WORLD);
  state.step = where[1], state.epoch = where[2], state.position = where[3];
  copy(state.parameters, host.data(), kParameters);
  copy(state.momentum, host.data() + kParameters, kParameters);
}

// 6. Signals and time-outs. A handler only notes the signal: all ranks must stop after the same step.
volatile std::sig_atomic_t stop_wanted = 0;
void on_signal(int) { stop_wanted = 1; }
void on_alarm(int) {  // a collective that waits for a rank that is gone would wait for ever
  char line[] = "rank 000: no step has ended for --timeout seconds: is a rank gone, or behind?\n";
  line[5] += rank / 100 % 10, line[6] += rank / 10 % 10, line[7] += rank % 10;
  (void)!write(2, line, sizeof line - 1);
  _exit(124);
}

// 7. One step of the global batch order[position, position + count).
double step_of(const State& state, const std::vector<long>& order, long count, float* gradients, Sums& sums) {
  fill_zero(gradients, kParameters);
  const auto send = [&](int bucket) { sums.start(gradients + kBucketBegin[bucket], kBucketSize[bucket]); };
  const auto keep = [](int) {};  // no_sync
  const long stride = static_cast<long>(options["--microbatch"]) * ranks;
  double loss = 0;
  if (rank >= count) send(1), send(0);  // a rank without a sample takes part in every sum
  for (long from = rank; from < count; from += stride) {
    std::vector<long> samples;
    for (long i = from; i < std::min(from + stride, count); i += ranks) samples.push_back(order[state.position + i]);
    const bool last = from + stride >= count;  // of this rank: the window may be incomplete, and uneven
    const auto ready = last ? std::function<void(int)>(send) : keep;
    loss += add_gradients(state.parameters, gradients, text, samples, 1.0f / count, ready);
  }
  sums.wait();
  const double length = norm(gradients), most = options["--clip"];  // of the whole gradient: the same on every rank
  const double warm = std::min(1.0, (state.step + 1) / options["--warmup"]);
  update(state.parameters, state.momentum, gradients, options["--rate"] * warm, length > most ? most / length : 1);
  return loss;
}

int train() {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) std::signal(signal, on_signal);
  std::signal(SIGALRM, on_alarm);
  Sums sums;
  State state;
  float* gradients = allocate(kParameters);
  resume(state);
  const long samples = std::min<long>(options["--samples"], text.size() - kContext);
  auto since = std::chrono::steady_clock::now();
  long done = 0;
  for (; state.epoch < options["--epochs"]; ++state.epoch, state.position = 0) {
    const std::vector<long> order = order_of(state.epoch, samples);
    while (state.position < samples) {
      alarm(options["--timeout"]);
      const long count = std::min<long>(options["--batch"], samples - state.position);
      double all[2] = {step_of(state, order, count, gradients, sums), double(stop_wanted)};
      MPI_Allreduce(MPI_IN_PLACE, all, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
      ++state.step, state.position += count, done += count;
      if (rank == 0 && state.step % long(options["--log-every"]) == 0) {  // one rank writes, of what all have seen
        const std::chrono::duration<double> time = std::chrono::steady_clock::now() - since;
        std::printf("step %ld, epoch %ld, loss %.6f, %.0f samples/s\n", state.step, state.epoch, all[0] / count,
                    done / time.count());
        std::fflush(stdout), done = 0, since = std::chrono::steady_clock::now();
      }
      if (all[1] > 0 || state.step % long(options["--save-every"]) == 0) save(state);
      if (all[1] > 0) return 75;  // what sysexits.h calls a temporary failure: start me again
    }
  }
  save(state);
  release(gradients), release(state.parameters), release(state.momentum);
  return 0;
}

int main(int argc, char** argv) {
  find_place(argc, argv);
  try {
    for (int i = 2; i < argc; ++i) {
      const std::string name = argv[i];
      if (++i == argc || (name != "--checkpoint" && !options.contains(name)))
        throw std::runtime_error("what is " + name + "?");
      if (name == "--checkpoint")
        checkpoint = argv[i];
      else
        options[name] = std::stod(argv[i]);
    }
    std::ifstream file(argc > 1 ? argv[1] : "", std::ios::binary);
    text = (std::stringstream() << file.rdbuf()).str();
    if (text.size() <= kContext)
      throw std::runtime_error("usage: ddp TEXT [--epochs 1] …: a text is needed to learn from");
    const int code = train();
    MPI_Finalize();  // 8. Everybody arrives here, or nobody does
    return code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);  // ends the others, who would wait for ever for this one
  }
}
