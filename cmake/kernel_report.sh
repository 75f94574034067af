#!/bin/sh
# Compiles a CUDA source and keeps the resources of its kernels:
#   kernel_report.sh FOLDER COMPILER ARGUMENTS... -o OBJECT
# FOLDER/<name of OBJECT>.txt receives the path of the object, the bounds of __launch_bounds__ from
# the PTX, and ptxas' report for each kernel.  Other messages go to stderr.
set -u
folder=$1
shift
object='' previous=''
for argument; do
  if [ "$previous" = -o ]; then object=$argument; fi
  previous=$argument
done
name=$(basename "$object" .o)
kept=$folder/$name.kept
mkdir -p "$kept"
trap 'rm -rf "$kept"' EXIT

# -Xptxas=-v would be embedded in the object's PTX and passed to the driver.
"$@" --resource-usage --keep --keep-dir "$kept" 2> "$kept/messages"
status=$?
report='^ptxas info|^ +[0-9]+ bytes stack frame'
grep -vE "$report" "$kept/messages" >&2
[ $status = 0 ] || exit $status
case $object in /*) ;; *) object=$PWD/$object ;; esac
{
  echo "object $object"
  grep -hE '^(\.visible |\.weak )?\.entry |^\.(maxntid|minnctapersm) ' "$kept"/*.ptx
  grep -E "$report" "$kept/messages"
} > "$folder/$name.txt"
