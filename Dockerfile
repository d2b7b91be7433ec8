# Lockstep in a container, for amd64 and arm64: what ./lab needs is installed, the source is mounted or copied.
#
#   docker build -t lockstep .
#   docker run --rm -it --init --shm-size=1g -v "$PWD":/lockstep lockstep ./lab check 21.0
#
# On a shared server, --cpuset-cpus=0-3 gives it cores of its own; ./lab measures what it may use. GPUs are not needed; for
# them start from NVIDIA's image instead: --build-arg BASE=nvidia/cuda:12.6.3-devel-ubuntu24.04, and run with --gpus all.
ARG BASE=debian:12-slim
FROM ${BASE}

# git for the commit in results, gdb for ./lab check --debug, iproute2 for two hosts in one computer, clang-format and
# clang-tidy for .ci/run.
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      ca-certificates clang-format clang-tidy gdb git iproute2 openssh-client \
 && rm -rf /var/lib/apt/lists/*

# The project's own list, so that there is only one.
COPY tools/setup.sh tools/probes.sh /opt/lockstep-setup/tools/
COPY cmake/LockstepBlas.cmake /opt/lockstep-setup/cmake/
RUN apt-get update && sh /opt/lockstep-setup/tools/setup.sh --yes && rm -rf /var/lib/apt/lists/*

# Containers forbid copies from process to process; the source belongs to whoever mounted it.
ENV OMPI_MCA_btl_vader_single_copy_mechanism=none LC_ALL=C.UTF-8
RUN git config --system --add safe.directory '*'
WORKDIR /lockstep
