#!/bin/bash
# Faults in sweeps: killed, aborted and stopped processes, two runs on one store, full and read-only
# disks.  Each sweep is run again until it is done.  Its store must then equal that of an
# undisturbed run.
#   tests/faults.sh build/turnbench [--full] [--seed N]
# --full has many more rounds; --seed repeats the random moments and sizes of a run.
set -u
export LC_ALL=C
# Mounts are made in a namespace of their own, so that none remains.
if [ -z "${FAULTS_MOUNTS:-}" ]; then
  for with in "unshare --mount" "unshare --mount --map-root-user"; do
    $with mount -t tmpfs none /tmp 2> /dev/null && FAULTS_MOUNTS=allowed exec $with bash "$0" "$@"
  done
fi

program=$(realpath "$1")
shift
parts=$(dirname "$(realpath "$0")")/faults
kills=8 aborts=2 hangs=3 pairs=2 disks=2 limits=2 read_only=3
seed=$SRANDOM
while [ $# -gt 0 ]; do
  case $1 in
    --full) kills=200 aborts=20 hangs=20 pairs=20 disks=20 limits=20 read_only=6 ;;
    --seed) seed=$2 && shift ;;
    *) echo "found $1, expected --full or --seed N" && exit 2 ;;
  esac
  shift
done
echo "seed $seed"
RANDOM=$((seed % 32768))

work=$(mktemp -d)
declare -A started=() # runs that have not ended; each is a session
finish() {
  for pid in "${!started[@]}"; do kill -KILL -- "-$pid" 2> /dev/null; done
  cd /
  grep -s " $work" /proc/self/mounts | cut -d " " -f 2 | xargs -r umount
  rm -rf "$work"
}
trap finish EXIT
ulimit -c 0 # aborted processes leave no core files

. "$parts/sweeps.sh"
. "$parts/processes.sh"
. "$parts/disks.sh"

make_wanted
start_hangs "$hangs" # the time limit of a hanging unit is at least a minute
repeat "$kills" kills kill_round
repeat "$aborts" aborts abort_round
repeat "$pairs" pairs pair_round
repeat "$limits" limits full_round limit
if [ -n "${FAULTS_MOUNTS:-}" ]; then
  repeat "$disks" disks full_round disk
  repeat "$read_only" read_only read_only_round
else
  echo "not run: full and read-only disks, because this user may not mount any"
fi
repeat "$hangs" hangs hang_round
echo "passed: ${passed[kills]} kills, ${passed[aborts]} aborted units, ${passed[hangs]} hangs," \
  "${passed[pairs]} pairs of runs, ${passed[disks]} full disks, ${passed[limits]} file size" \
  "limits, ${passed[read_only]} read-only disks"
