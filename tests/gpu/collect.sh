#!/bin/sh
# Copies programs, stripped, and the packages' libraries that they load, so that another machine can
# run them:  tests/gpu/collect.sh FROM TO PROGRAM...
# The other machine provides the runtimes of C and C++; cudart is linked statically.
set -eu
from=$1 to=$2
shift 2
rm -rf "$to"
mkdir -p "$to/lib"
for program in "$@"; do
  strip -o "$to/$program" "$from/$program"
  ldd "$from/$program" | awk '$3 ~ "^/" { print $3 }' |
    grep -v -E '/(libc|libm|libstdc\+\+|libgcc_s|libpthread|libdl|librt)\.so' |
    while read -r library; do cp -L "$library" "$to/lib/"; done
done
