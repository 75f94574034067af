# Disks that are full or read-only, and limits on the size of files.

# Mounts a disk or changes it.  (With a type and a source, mount adds no options of its own, which
# another user than root may not set.)
mount_disk() {  # $1: folder, $2: options
  mount -t tmpfs -o "$2" none "$1" || fail "mount with $2"
}

# The disk becomes full, or the store reaches a limit on the size of files.
full_round() {  # $1: disk or limit
  local size options=(--quiet)
  new_store
  random 1000
  size=$((64 + REPLY))
  random 2
  if ((REPLY == 0)); then options+=(--workers 2); fi
  if [ "$1" = disk ]; then
    mount_disk "$dir/store" "size=${size}k"
  else
    limit=$size
  fi
  start full run "$work/sweep.json" --db "$db" "${options[@]}"
  limit=unlimited
  end "$pid"
  if [ "$code" -ne 0 ]; then
    check_message full "got.db: .*\(full\|No space left\|File too large\)"
    check_kept
    local before=$kept
    [ "$1" != disk ] || mount_disk "$dir/store" remount,size=64m
    check_kept
    [ "$kept" -eq "$before" ] || fail "a larger disk has other results"
    check run "$work/sweep.json" --db "$db"
    count "${1}s" "$size KiB, $kept dialogues kept"
  fi
  check_equal sweep
}

# The disk of a shard is read-only: when it is started, or when it is started again after it was
# stopped or killed.  (A disk with files that are open for writing cannot be made read-only.)
read_only_round() {
  local kinds=(empty TERM KILL) kind disk i
  new_store
  kind=${kinds[passed[read_only] % 3]}
  disk=$dir/disk
  mkdir "$disk"
  mount_disk "$disk" size=64m
  local shard=(run "$work/sweep.json" --shard 2/3)
  if [ "$kind" != empty ]; then
    start first "${shard[@]}" --db "$disk/2.db" --workers 1
    find_worker
    pause $((duration[sweep] / 2))
    kill "-$kind" "$pid" 2> /dev/null
    end "$pid"
    [ "$code" -ne 0 ] || return
  fi
  mount_disk "$disk" remount,ro
  start second "${shard[@]}" --db "$disk/2.db"
  end "$pid"
  if [ "$code" -eq 0 ]; then # the first run had stored its last unit
    [ "$kind" != empty ] && grep -q "nothing is left to run" "$dir/second.err" ||
      fail "exit code 0, expected 1"
  else
    check_message second "2.db: .*cannot be \(written\|read\)"
    count read_only "$kind: $(sed 's/.*\/2.db: //' "$dir/second.err")"
  fi
  cp -r "$disk/." "$dir"
  umount "$disk"
  check "${shard[@]}" --db "$dir/2.db"
  for i in 1 3; do check run "$work/sweep.json" --shard $i/3 --db "$dir/$i.db"; done
  check merge "$db" "$dir/1.db" "$dir/2.db" "$dir/3.db"
  check_equal sweep
}
