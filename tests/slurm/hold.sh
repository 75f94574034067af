# Functions that stop the program of a task at a known state, so that the tests of tasks do not
# depend on the speed of the machine.

# Prints the number of records in a store: 0 while there is none.
records_in() {  # $1: turnbench, $2: store, $3: file for a copy
  [ -e "$2" ] && "$1" copy "$2" "$3" 2> /dev/null | sed -n 's/.*: \([0-9]*\) records.*/\1/p' |
    grep . || echo 0
}

# Waits until a task runs its program, and suspends the program.  Sets pid, its process, and job, the
# id of the task.
hold() {  # $1: the shard's files without their extension
  for _ in $(seq 3000); do
    grep -q state=running "$1.state" 2> /dev/null && break
    sleep 0.1
  done
  pid=$(sed -n 's/.*state=running.* pid=\([0-9]*\).*/\1/p' "$1.state")
  job=$(sed -n 's/.*job=\([0-9_]*\).*/\1/p' "$1.state")
  kill -STOP "$pid"
}

# Lets a suspended program run in short intervals until it has stored results and its task has
# copied them.  It is suspended then.
step_to_results() {  # $1: turnbench, $2: process, $3: the shard's files without their extension
  local seen store
  seen=$(mktemp)
  store=$(tr '\0' '\n' < "/proc/$2/cmdline" | sed -n '/^--db$/{n;p}')
  while [ "$(records_in "$1" "$store" "$seen")" -eq 0 ]; do
    kill -CONT "$2" || return 1
    sleep 0.1
    kill -STOP "$2" || return 1
  done
  until [ "$(records_in "$1" "$3.db" "$seen")" -gt 0 ]; do sleep 0.2; done
  rm -f "$seen"
}

# Lets a suspended program go on when it has received a signal, unless its sender has done so.
release_with_signal() {  # $1: process
  while kill -0 "$1" 2> /dev/null && grep -q '^State:.*T (stopped)' "/proc/$1/status" 2> /dev/null; do
    if grep -q 'Pnd:.*[1-9a-f]' "/proc/$1/status"; then kill -CONT "$1"; fi
    sleep 0.05
  done
}
