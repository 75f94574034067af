#!/bin/sh
# The steps of an image, for Dockerfile and turnbench.def, on Debian 12 or Ubuntu 24.04:
#   container.sh build SOURCE STAGE    packages, build, and the installed files below STAGE
#   container.sh install STAGE         the packages that the program needs to run, and its files
set -eu
export DEBIAN_FRONTEND=noninteractive
case $1 in
  build)
    source=$2 stage=$3
    apt-get update -qq
    # shellcheck disable=SC2046
    apt-get install -y -qq --no-install-recommends $(grep -v '^#' "$source/packages.txt") > /dev/null
    cmake -S "$source" -B /tmp/turnbench-build -G Ninja -DCMAKE_BUILD_TYPE=Release \
      -DTURNBENCH_TESTS=OFF -DTURNBENCH_BENCH=OFF > /dev/null
    cmake --build /tmp/turnbench-build --target turnbench
    DESTDIR=$stage cmake --install /tmp/turnbench-build --prefix /usr/local > /dev/null
    # The packages of the libraries that the program is linked to.
    for library in $(ldd "$stage/usr/local/bin/turnbench" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p'); do
      # Packages list files below /usr/lib or /lib, which are the same folder.
      dpkg-query -S "$library" "/usr$library" 2> /dev/null || true
    done | sed 's/:.*//' | sort -u > "$stage/packages"
    cp "$0" "$stage/container.sh"
    ;;
  install)
    stage=$2
    apt-get update -qq
    # shellcheck disable=SC2046
    apt-get install -y -qq --no-install-recommends ca-certificates $(cat "$stage/packages") > /dev/null
    cp -a "$stage/usr/local/." /usr/local/
    rm -rf "$stage" /var/lib/apt/lists/*
    turnbench --version
    ;;
  *)
    echo "container.sh: found $1, expected build or install"
    exit 2
    ;;
esac
