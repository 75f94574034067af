#!/bin/sh
# Tests and measures the CUDA backend on a machine with a GPU, in short calls; see docs/gpu.md:
#   tests/gpu.sh build [ARCHITECTURE]     programs for other machines, in build-gpu/programs
#   tests/gpu.sh probe [FOLDER]           hardware and software; at most 2 minutes
#   tests/gpu.sh measure [FOLDER]         speed compared with its targets; at most 8 minutes
#   tests/gpu.sh test [FOLDER]            the suites, compute-sanitizer; at most 8 minutes
# FOLDER receives table.txt, results.json and log.txt (default: a folder with the command's name in
# $OUT or build-gpu/results).  If a part fails or takes too long, the next parts still run, and the
# exit code is 1.  Without a GPU, `probe` reports the machine, and `measure` and `test` build
# everything and run the kernels on their emulation; all three print "skipped: no GPU".
set -u
cd "$(dirname "$0")/.." || exit 1
PATH=$PATH:/usr/local/cuda/bin
# shellcheck source=tests/gpu/parts.sh
. tests/gpu/parts.sh
# shellcheck source=tests/gpu/programs.sh
. tests/gpu/programs.sh

usage() {
  echo "usage: tests/gpu.sh probe|measure|test [RESULTS_FOLDER], or tests/gpu.sh build [ARCHITECTURE]" >&2
  exit 2
}

case ${1-} in build | probe | measure | test) ;; *) usage ;; esac
[ $# -le 2 ] || usage

if [ "$1" = build ]; then
  case ${2-90} in '' | *[!0-9]*) usage ;; esac
  begin build 36000
  build_programs "${2-90}" "$limit" || finish
  bytes=$(find "$programs" -type f -exec cat {} + | wc -c)
  fact "$programs" "$((bytes / 1048576)) MiB of at most 64"
  part "fits what can be carried" 10 test "$bytes" -le $most_bytes
  finish
fi

# shellcheck disable=SC1090  # one of those below
case $1 in
  probe) begin probe 115 "${2-}" ;;
  *) begin "$1" 460 "${2-}" ;;  # stopping a part takes a few more seconds
esac
find_card
case $1 in
  probe)
    # shellcheck source=tests/gpu/probe.sh
    . tests/gpu/probe.sh
    probe
    ;;
  measure)
    # shellcheck source=tests/gpu/measure.sh
    . tests/gpu/measure.sh
    fact "card" "${card:-none}"
    if [ -z "$card" ]; then without_card; fi
    measure_all
    ;;
  test)
    # shellcheck source=tests/gpu/suites.sh
    . tests/gpu/suites.sh
    fact "card" "${card:-none}"
    if [ -z "$card" ]; then without_card; fi
    test_all
    ;;
esac
