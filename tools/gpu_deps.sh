#!/bin/sh
# Copies the dependencies of the core, the methods and their tests from Debian's packages into a
# folder, for a machine that has only a C++ compiler, CMake and the CUDA toolkit (see
# cmake/packages.cmake).
#   tools/gpu_deps.sh [gpu-deps]
set -eu
cd "$(dirname "$0")/.."
to=${1:-gpu-deps}

rm -rf "$to"
mkdir -p "$to/include" "$to/lib" "$to/googletest"
for header in fmt nlohmann hwy pcre2.h utf8proc.h xxhash.h xxh3.h zip.h zipconf.h; do
  cp -r "/usr/include/$header" "$to/include/"
done
cp -r /usr/include/eigen3/Eigen "$to/include/"
cp -r /usr/src/googletest/googletest/include /usr/src/googletest/googletest/src "$to/googletest/"

# Every library under the name by which programs load it, with its own dependencies; the runtimes of
# C and C++ belong to the compiler.
for library in hwy pcre2-8 utf8proc xxhash zip; do
  file=$(c++ -print-file-name="lib$library.so")
  name=$(objdump -p "$file" | awk '$1 == "SONAME" { print $2 }')
  cp -L "$file" "$to/lib/$name"
  ldd "$file" | awk '$3 ~ "^/" { print $3 }' |
    grep -v -E '/(libc|libm|libstdc\+\+|libgcc_s|libpthread|libdl)\.so' |
    while read -r needed; do cp -L "$needed" "$to/lib/"; done
done
du -sh "$to"
