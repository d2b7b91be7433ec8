#!/bin/sh
# Two hosts on this computer: each has a name, a network and shared memory of its own, and one cable joins them.
#
#   launch/two_hosts.sh [--rate RATE] command arguments…
#   launch/two_hosts.sh ./lab bench all_reduce --backend mpi --ranks 4 --nodes 2
#
# The command runs on host-a. launch/mpirun.sh finds both hosts through LOCKSTEP_HOSTFILE, and gets to host-b by a
# stand-in for ssh. Files are the same on both, as on a cluster. RATE (1gbit, 250mbit, say) bounds the cable in each
# direction; one above what the cable carries without it, some 10 Gbit/s, bounds nothing.
# Needs Linux's namespaces (root, or a system that lets everybody have them) and iproute2; where one is missing it says
# so and exits with 77. Nothing is left when it ends, however it ends: namespaces go with their last process.
set -u

cannot() { echo "two_hosts: $*" >&2; exit 77; }

# Called by a person: once more as process 1 of new namespaces.
if [ "${LOCKSTEP_TWO_HOSTS:-}" != inside ]; then
  rate=''
  while [ $# -gt 0 ]; do
    case $1 in
      --rate) [ $# -ge 2 ] || { echo "two_hosts: --rate needs a rate, such as 1gbit" >&2; exit 2; }; rate=$2; shift 2 ;;
      --) shift; break ;;
      -*) echo "two_hosts: unknown option '$1'. Known: --rate." >&2; exit 2 ;;
      *) break ;;
    esac
  done
  burst=''
  if [ -n "$rate" ]; then
    # Bytes that pass at once: as many as the rate makes in 2 ms, since a busy kernel looks no more often; but a whole
    # segment.
    burst=$(echo "$rate" | awk '{
      n = $0; sub(/[a-zA-Z]*$/, "", n); unit = tolower(substr($0, length(n) + 1))
      if (unit == "") unit = "bit"
      power = index("bit kbit mbit gbit", unit); if (n !~ /^[0-9]+(\.[0-9]+)?$/ || n <= 0 || unit !~ /^[kmg]?bit$/) exit 1
      bytes = n * (power == 1 ? 1 : power == 5 ? 1e3 : power == 10 ? 1e6 : 1e9) / 8 * 0.002
      printf "%d", bytes < 65536 ? 65536 : bytes }') ||
      { echo "two_hosts: --rate needs bits a second, such as 1gbit or 250mbit, not '$rate'" >&2; exit 2; }
  fi
  [ $# -gt 0 ] || { sed -n 's/^# \{0,1\}//p' "$0" >&2; exit 2; }

  PATH=$PATH:/usr/sbin:/sbin
  for pair in ip:iproute2 tc:iproute2 unshare:util-linux nsenter:util-linux setpriv:util-linux hostname:hostname; do
    command -v "${pair%:*}" > /dev/null 2>&1 || cannot "no program ${pair%:*}; Debian's package is ${pair#*:}"
  done
  user=''
  [ "$(id -u)" -eq 0 ] || user='--user --map-root-user'
  # shellcheck disable=SC2086  # two words, or none
  refused=$(unshare $user --mount --net --uts --pid --fork --mount-proc true 2>&1) ||
    cannot "this system gives user $(id -u) no namespaces of its own: $refused"

  # shellcheck disable=SC2086
  LOCKSTEP_TWO_HOSTS=inside LOCKSTEP_RATE=$rate LOCKSTEP_BURST=$burst setpriv --pdeathsig KILL \
    unshare $user --mount --net --pid --fork --kill-child --mount-proc sh "$0" "$@" &
  job=$!
  trap 'kill -KILL $job; exit 130' INT
  trap 'kill -KILL $job; exit 143' TERM HUP
  wait $job
  exit
fi

# Inside. What both hosts share, at a place that is new and goes with the namespace.
mount -t tmpfs none /run || cannot "no new file system may be mounted here"
shared=/run/lockstep
mkdir $shared /run/tmp
printf '127.0.0.1 localhost\n10.77.0.1 host-a\n10.77.0.2 host-b\n' > $shared/names
printf 'host-a\nhost-b\n' > $shared/hosts
mount --bind $shared/names /etc/hosts || cannot "/etc/hosts cannot be replaced"

for host in host-a host-b; do # a host is a process that holds its namespaces
  unshare --mount --net --uts --ipc sh -c "hostname $host && mount -t tmpfs none /dev/shm && mount -t tmpfs none /run/tmp && ip link set lo up &&
    echo \$\$ > $shared/$host.new && mv $shared/$host.new $shared/$host && exec sleep infinity" &
done
until_up() { # what, condition…
  what=$1 tries=0
  shift
  until "$@"; do
    tries=$((tries + 1))
    [ $tries -le 100 ] || cannot "$what did not come up"
    sleep 0.05
  done
}
hosts_are_there() { [ -s $shared/host-a ] && [ -s $shared/host-b ]; }
until_up "the hosts" hosts_are_there

ip link add eth0 netns "$(cat $shared/host-a)" type veth peer name eth0 netns "$(cat $shared/host-b)" ||
  cannot "this kernel has no veth, which is the cable"
on() { # host, command…
  target=$(cat "$shared/$1")
  shift
  nsenter --target "$target" --net -- "$@"
}
connect() { # host, address
  { on "$1" ip addr add "$2/24" dev eth0 && on "$1" ip link set eth0 up; } || cannot "the cable does not come up"
  [ -z "$LOCKSTEP_RATE" ] ||
    on "$1" tc qdisc add dev eth0 root tbf rate "$LOCKSTEP_RATE" burst "$LOCKSTEP_BURST" latency 50ms ||
    cannot "the cable cannot be bounded to '$LOCKSTEP_RATE'"
}
connect host-a 10.77.0.1
connect host-b 10.77.0.2
# The kernel takes up to a second to see both ends; UCX passes over an interface until then.
sees_cable() { case $(on "$1" ip link show dev eth0) in *"state UP"*) ;; *) return 1 ;; esac; }
until_up "the cable of host-a" sees_cable host-a
until_up "the cable of host-b" sees_cable host-b

cat > $shared/agent << 'AGENT'
#!/bin/sh
# ssh [options] HOST COMMAND…
while :; do case $1 in -*) shift ;; *) break ;; esac; done
host=$1
shift
exec nsenter --target "$(cat "/run/lockstep/$host")" --mount --net --uts --ipc -- sh -c "$*"
AGENT
chmod +x $shared/agent
export LOCKSTEP_HOSTFILE=$shared/hosts
# Open MPI 4, Open MPI 5, and implementations derived from MPICH.
export OMPI_MCA_plm_rsh_agent=$shared/agent PRTE_MCA_plm_ssh_agent=$shared/agent
export HYDRA_LAUNCHER=ssh HYDRA_LAUNCHER_EXEC=$shared/agent
# Folders that each host keeps for itself. /tmp itself stays: the program may be there.
export OMPI_MCA_orte_tmpdir_base=/run/tmp PRTE_MCA_prte_tmpdir_base=/run/tmp
unset LOCKSTEP_TWO_HOSTS

# shellcheck disable=SC2016  # expanded on host-a
nsenter --target "$(cat $shared/host-a)" --mount --net --uts --ipc -- sh -c 'cd "$0" && exec "$@"' "$PWD" "$@"
