# Functions that run a Slurm cluster of one node on loopback, without systemd, in a folder of its
# own.  Needs root and Debian's slurm-wlm and munge.

cluster_missing() {  # prints why no cluster can run here
  [ "$(id -u)" -eq 0 ] || { echo "not root"; return; }
  for program in munged slurmctld slurmd sbatch; do
    command -v "$program" > /dev/null || { echo "no $program"; return; }
  done
}

free_port() {  # prints a port on which nothing listens, from $1 on
  port=$1
  while (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null; do port=$((port + 1)); done
  echo "$port"
}

cluster_start() {  # $1: an existing folder that all users can enter; sets SLURM_CONF
  cluster=$1
  local host control
  host=$(hostname -s)
  chmod 755 "$cluster"
  mkdir "$cluster"/{key,run,state,spool,log}
  head -c 128 /dev/urandom > "$cluster/key/munge.key"
  chmod 700 "$cluster/key"
  chmod 600 "$cluster/key/munge.key"
  chown -R munge "$cluster/key" "$cluster/run"
  runuser -u munge -- munged --key-file="$cluster/key/munge.key" \
    --socket="$cluster/run/munge.socket" --pid-file="$cluster/run/munged.pid" \
    --log-file="$cluster/key/munged.log" --seed-file="$cluster/key/munged.seed" || return 1
  control=$(free_port $((20000 + $$ % 10000)))
  cat > "$cluster/slurm.conf" << END
ClusterName=loopback
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$control
SlurmdPort=$(free_port $((control + 1)))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$cluster/run/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation=$cluster/state
SlurmdSpoolDir=$cluster/spool
SlurmctldPidFile=$cluster/run/slurmctld.pid
SlurmdPidFile=$cluster/run/slurmd.pid
SlurmctldLogFile=$cluster/log/slurmctld.log
SlurmdLogFile=$cluster/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SchedulerParameters=sched_interval=1,bf_interval=1
KillWait=30
MaxArraySize=6
NodeName=$host NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=main Nodes=$host Default=YES MaxTime=60 State=UP
END
  export SLURM_CONF=$cluster/slurm.conf
  slurmctld -f "$SLURM_CONF"
  slurmd -f "$SLURM_CONF"
  for _ in $(seq 60); do
    if sinfo --noheader --format=%t 2> /dev/null | grep -q '^idle'; then return; fi
    sleep 0.5
  done
  echo "the cluster does not start:"
  tail -n 20 "$cluster"/log/*.log
  return 1
}

cluster_stop() {  # ends all jobs and daemons
  if [ -e "$cluster/run/slurmctld.pid" ]; then
    timeout 10 scancel --user=root 2> /dev/null
    for _ in $(seq 60); do  # while slurmd runs, it ends the processes of the jobs
      [ -n "$(timeout 10 squeue --noheader 2> /dev/null)" ] || break
      sleep 0.5
    done
  fi
  local daemon pid
  for daemon in slurmd slurmctld munged; do
    [ -e "$cluster/run/$daemon.pid" ] || continue
    pid=$(cat "$cluster/run/$daemon.pid")
    kill "$pid" 2> /dev/null
    for _ in $(seq 40); do
      readlink "/proc/$pid/exe" > /dev/null || break  # ended, or a zombie
      sleep 0.25
    done
    kill -KILL "$pid" 2> /dev/null
  done
}
