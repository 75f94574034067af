#!/bin/sh
# Installs the packages of a list (packages.txt) that are missing, if any.
#   tools/setup.sh [packages.txt]
set -eu
cd "$(dirname "$0")/.."
wanted=$(grep -v '^#' "${1:-packages.txt}")

if ! command -v dpkg-query > /dev/null 2>&1; then
  echo "This is not Debian or Ubuntu.  Needed are the equivalents of:" $wanted
  exit 0
fi
missing=""
for package in $wanted; do
  dpkg-query -W -f '${Status}' "$package" 2> /dev/null | grep -q 'install ok installed' || missing="$missing $package"
done
[ -z "$missing" ] && exit 0

as_root=""
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo > /dev/null 2>&1; then
    echo "Missing packages:$missing"
    echo "Install them as root: apt-get install$missing"
    exit 1
  fi
  as_root=sudo
fi
echo "Installing:$missing"
$as_root apt-get update -qq
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing > /dev/null
