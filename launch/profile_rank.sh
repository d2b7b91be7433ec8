#!/bin/sh
# Runs one rank of a program under Nsight Systems; ./lab profile starts it.
#
#   launch/profile_rank.sh NSYS PREFIX program arguments…
#
# The report is PREFIX.rank3.nsys-rep, by the rank that the launcher gave this process.
set -eu
nsys=$1 prefix=$2
shift 2
rank=${LOCKSTEP_RANK:-${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK:-${SLURM_PROCID:-0}}}}}
exec "$nsys" profile --trace=cuda,nvtx,osrt --force-overwrite=true --output="$prefix.rank$rank" "$@"
