# Merges the stores of a sweep's shards, and submits the missing shards again.  $1: number of the
# submission, $2: how often missing shards are submitted again.
set -u
for name in "${!SLURM_@}"; do  # settings of this job, which are not for those that it submits
  case $name in
    SLURM_CONF | SLURM_CLUSTERS) ;;
    *) unset "$name" ;;
  esac
done
cd "$working_directory" || exit 1
exec "$program" slurm --continue --dir "$directory" --submission "$1" --resubmit "$2"
