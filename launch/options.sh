# shellcheck shell=sh disable=SC2034,SC2154
# Read by mpirun.sh, srun.sh and local.sh: takes the options off their command line, into ranks, nodes, hostfile, timeout
# and grace. $options are those that the script has besides -n, $elsewhere says why it has none about hosts.
usage() {
  echo "usage: $0 -n RANKS $options program arguments…" >&2
  exit 2
}
refuse() { echo "$0: $*" >&2; exit 2; }

ranks='' nodes=1 hostfile='' timeout='' grace=''
while [ $# -gt 0 ]; do
  case $1 in --) shift; break ;; -*) ;; *) break ;; esac
  case "[-n $options" in
    *"[$1 "*) [ $# -ge 2 ] || usage ;;
    *) case $1 in --nodes | --hostfile) refuse "$elsewhere" ;; *) usage ;; esac ;;
  esac
  case $1 in
    -n) ranks=$2 ;;
    --nodes) nodes=$2 ;;
    --hostfile) hostfile=$2 ;;
    --timeout) timeout=$2 ;;
    --grace) grace=$2 ;;
    *) usage ;;
  esac
  shift 2
done
case $ranks in '' | 0* | *[!0-9]*) refuse "-n needs the number of ranks, at least 1" ;; esac
case $nodes in '' | 0* | *[!0-9]*) refuse "--nodes needs a number of hosts, at least 1" ;; esac
case $timeout in 0* | *[!0-9]*) refuse "--timeout needs a whole number of seconds, not '$timeout'" ;; esac
case $grace in 0* | *[!0-9]*) refuse "--grace needs a whole number of seconds, not '$grace'" ;; esac
[ $# -gt 0 ] || usage
[ $((ranks % nodes)) -eq 0 ] || refuse "$ranks ranks cannot be distributed evenly over $nodes nodes"
