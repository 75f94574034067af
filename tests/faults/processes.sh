# Processes that end or stop at random moments.

# Waits until the run of pid has worker processes.  Sets worker, one of them; returns 1 if the run
# ends.
find_worker() {
  local all=()
  while kill -0 "$pid" 2> /dev/null; do
    read -ra all < "/proc/$pid/task/$pid/children"
    if ((${#all[@]} > 0)); then
      random ${#all[@]}
      worker=${all[REPLY]}
      return 0
    fi
    sleep 0.005
  done 2> /dev/null
  return 1
}

# Runs the failed units of a store again, in one of two ways, until it is done.
retry() {  # $1: name of the sweep
  random 2
  if ((REPLY == 0)); then
    check run "$work/$1.json" --db "$db" --retry
  else
    check status "$db" retry
  fi
}

# The failures are those of a worker that ended in a certain way.
check_failures() {  # $1: how
  check_kept
  grep ", turn [0-9]*: " "$dir/status.out" > "$dir/failures.out" || fail "status lists no failure"
  ! grep -v "worker process $1" "$dir/failures.out" || fail "expected failures: $1"
}

# Kills the runs of a store until one is done: a run in threads, a run with two workers, one of its
# workers, or a run with a stopped worker.
kill_round() {
  local kinds=(threads parent worker stopped) kind failed=() options hit
  new_store
  while :; do
    kind=${kinds[passed[kills] % 4]} hit=0
    options=(--workers 2)
    [ "$kind" != threads ] || options=()
    start killed run "$work/sweep.json" --db "$db" "${options[@]}" "${failed[@]}"
    [[ "$kind" != [ws]* ]] || find_worker
    pause "${duration[sweep]}"
    case $kind in
      worker) find_worker && kill -KILL "$worker" && hit=1 ;;
      stopped) find_worker && kill -STOP "$worker" && kill -KILL "$pid" ;;
      *) kill -KILL "$pid" ;;
    esac 2> /dev/null
    end "$pid"
    check_kept
    [ "$code" -ne 137 ] || hit=1
    if ((hit == 1)); then
      count kills "$kind, $kept dialogues kept"
      ((duration[sweep] += duration[sweep] / 10))
    else # the run has ended too soon, perhaps because the machine is faster now
      ((duration[sweep] -= duration[sweep] / 8))
    fi
    failed=()
    case $code in
      0) break ;;
      1)
        check_failures "ended by signal 9 (Killed)"
        failed=(--retry)
        ;;
      137) ;;
      *) fail "exit code $code" ;;
    esac
  done
  check_equal sweep
}

abort_round() {
  new_store
  start first run "$work/isolated.json" --db "$db" --workers 1
  find_worker
  pause "${duration[isolated]}"
  find_worker && kill -ABRT "$worker" 2> /dev/null
  end "$pid"
  if [ "$code" -ne 0 ]; then
    [ "$code" -eq 1 ] || fail "exit code $code"
    check_failures "ended by signal 6 (Aborted)"
    count aborts "$kept dialogues kept"
    retry isolated
  fi
  check_equal isolated
}

# Starts a run, and waits until it has stored more than some dialogues but has not ended.
start_until() {  # $1: name of the sweep, $2: dialogues, $3...: options
  while :; do
    new_store
    start first run "$work/$1.json" --db "$db" "${@:3}"
    while kill -0 "$pid" 2> /dev/null; do
      check_kept
      ((kept <= $2)) || return 0
    done
    end "$pid"
    rm -r "$dir"
  done
}

# Waits until the worker of pid waits for half a second.  Returns 1 if the run ends.
find_waiting_worker() {
  local waits=0
  while ((waits < 10)); do
    find_worker || return 1
    ((++waits))
    grep -qs ") S " "/proc/$worker/stat" || waits=0
    sleep 0.05
  done
}

# Starts runs that hang: a worker in its last unit; a run, so that another one takes its units; a
# worker that waits for units of another run.  All wait at the same time.
hanging=()
start_hangs() {  # $1: number
  local kinds=(unit run waiting) kind i first
  for ((i = 0; i < $1; ++i)); do
    kind=${kinds[i % 3]}
    if [ "$kind" = unit ]; then
      start_until isolated 8 --workers 1
      first=$pid
      find_worker && kill -STOP "$worker"
    else
      start_until sweep 0
      first=$pid
      kill -STOP "$first"
      start second run "$work/sweep.json" --db "$db" --workers 1
    fi
    if [ "$kind" = waiting ]; then
      find_waiting_worker && kill -STOP "$worker" || kind=none
      kill -CONT "$first"
    fi
    hanging+=("$kind $first $pid $dir")
  done 2> /dev/null
}

hang_round() {
  local kind first second sweep=sweep ends
  [ ${#hanging[@]} -gt 0 ] || start_hangs 3
  read -r kind first second dir <<< "${hanging[0]}"
  hanging=("${hanging[@]:1}")
  db=$dir/store/got.db kept=0
  case $kind in
    unit)
      sweep=isolated
      end "$first"
      ;;
    run)
      end "$second"
      # The stopped run may be within a transaction.
      [ "$code" -eq 0 ] || check_message second "database is locked"
      ends=$(grep -o "[0-9]* units done in [0-9]*\|database is locked" "$dir/second.err")
      kill -CONT "$first"
      end "$first"
      count hangs "a run; another one: $ends"
      ;;
    *)
      end "$first"
      ((code <= 1)) || fail "exit code $code"
      end "$second"
      # The stopped worker may be within a transaction, which ends with the second run.
      if [ "$code" -eq 1 ] && grep -q "database is locked" "$dir/second.err"; then
        check run "$work/sweep.json" --db "$db"
        code=0
      fi
      [ "$kind" = none ] || count hangs "a waiting worker"
      ;;
  esac
  if [ "$code" -ne 0 ]; then
    [ "$code" -eq 1 ] || fail "exit code $code"
    check_failures "was killed after [0-9]* s, its time limit"
    [ "$kind" != unit ] || count hangs "a unit: $(grep -om 1 "killed after .* s" "$dir/failures.out")"
    retry $sweep
  fi
  check_equal $sweep
}

# Two runs on one store, of which every other round kills one.
pair_round() {
  local first second name killed=none hit=0
  new_store
  start first run "$work/sweep.json" --db "$db" --workers 2
  first=$pid
  start second run "$work/sweep.json" --db "$db" --workers 2
  second=$pid
  if ((passed[pairs] % 2 == 0)); then
    killed=first
    random 2
    if ((REPLY == 0)); then killed=second; fi
    pause "${duration[sweep]}"
    kill -KILL "${!killed}" 2> /dev/null
  fi
  for name in first second; do
    end "${!name}"
    case $code-$killed in
      0-*) ;;
      137-"$name") hit=1 ;;
      *) fail "exit code $code" ;;
    esac
  done
  check status "$db" # nothing is left to run
  # A run that is killed after the other one has closed the store leaves its write-ahead log, which
  # the next run merges.
  ((hit == 0)) || check run "$work/sweep.json" --db "$db"
  count pairs "killed: $killed"
  check_equal sweep
}
