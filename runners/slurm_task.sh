# One shard of a sweep, as a task of a job array.  $1: number of shards before this array's.
set -u
shard=$(($1 + SLURM_ARRAY_TASK_ID))
name=$(printf 'shard-%05d' "$shard")
kept=$directory/shards/$name.db
state=$directory/shards/$name.state

say() { printf '%s %s\n' "$(date '+%F %T')" "$*"; }

# Replaces the shard's state, a line of "key=value" words.  Its age shows whether the task is alive.
put_state() {
  printf '%s at=%s idle=%s\n' "$*" "$(date +%s)" "$idle" > "$state.partial" &&
    mv -f "$state.partial" "$state"
}

# Copies the store to the shared folder.  Until the copy is complete, the earlier one stays.
keep() { [ ! -e "$store" ] || copied=$("$program" copy "$store" "$kept"); }

# The same, again after an error: the shared folder may be full or out of reach for a while.
keep_surely() {
  for pause in 1 5 20 60 0; do
    keep && return
    say "the store could not be copied to $kept"
    sleep "$pause"
  done
  return 1
}

# The program stores what it has and exits with 75.  Slurm sends SIGTERM to all processes of a job,
# and SIGUSR1 to this script alone; the program ignores SIGUSR1 if SIGTERM came first.
pid=
stopping=
stop() {
  stopping=1
  [ -z "$pid" ] || kill -USR1 "$pid" 2> /dev/null
}
trap stop USR1
trap 'sleep 1; stop' TERM

# Ends a task that cannot run.
fail() {
  say "$*"
  put_state "state=ended code=1"
  exit 1
}

idle=0  # runs in succession that stored nothing
if [ -e "$state" ]; then
  idle=$(sed -n 's/.*idle=\([0-9]*\).*/\1/p' "$state")
  idle=${idle:-0}
fi
cd "$working_directory" || fail "there is no $working_directory"
for i in "${!manifests[@]}"; do
  copy=$directory/manifests/$((i + 1)).json
  cmp -s "${manifests[i]}" "$copy" || fail "${manifests[i]} differs from $copy: it has changed"
done
rm -rf "$local_directory/turnbench-$SLURM_JOB_ID-"*  # of a killed run of this job
folder=$(mktemp -d "$local_directory/turnbench-$SLURM_JOB_ID-XXXXXX") ||
  fail "nothing can be created in $local_directory"
trap 'rm -rf "$folder"' EXIT
store=$folder/$name.db
copied="0 records"
if [ -e "$kept" ]; then
  copied=$("$program" copy "$kept" "$store") || fail "$kept could not be copied to $store"
  say "continues with ${copied##*: }"
fi
before=${copied##*: }

say "shard $shard of $shards on $(hostname)"
"$program" run "${manifests[@]}" --shard "$shard/$shards" --db "$store" \
  ${options[@]+"${options[@]}"} &
pid=$!
[ -z "$stopping" ] || stop
running="state=running job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID host=$(hostname)"
running="$running pid=$pid since=$(date +%s)"
put_state "$running"
seen=$SECONDS next_copy=$((SECONDS + copy_seconds))
while kill -0 "$pid" 2> /dev/null; do
  sleep 1 &
  wait $!
  [ -z "$stopping" ] || continue
  if ((SECONDS >= next_copy)); then
    keep || say "the store could not be copied to $kept"
    next_copy=$((SECONDS + copy_seconds))
  fi
  if ((SECONDS >= seen + 30)); then
    put_state "$running"
    seen=$SECONDS
  fi
done
wait "$pid"
code=$?
say "exit code $code"

if ! keep_surely; then
  put_state "state=ended code=$code"
  exit 1
fi
if [ "${copied##*: }" = "$before" ]; then idle=$((idle + 1)); else idle=0; fi

case $code in
  75 | 138 | 143) ;;  # stopped; 128 + signal: before the program handled signals
  *)
    put_state "state=ended code=$code"
    exit "$code"
    ;;
esac
put_state "state=stopped code=$code"
if ((idle >= 3)); then
  say "stored nothing in $idle runs: the time limit is too short for one unit"
  exit 75
fi
# If the job was cancelled, or requeued by Slurm itself, it does not run any more.
if [ "$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T)" = RUNNING ] &&
  scontrol requeue "$SLURM_JOB_ID"; then
  say requeued
  exit 0
fi
exit 75
