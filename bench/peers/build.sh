#!/bin/sh
# Builds the peers into the directory given (default: bench/peers/build), from Debian's own packages. As root it installs
# what is missing; otherwise it says what that is.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/build}

missing=
command -v gcc >/dev/null || missing="$missing gcc libc6-dev"
command -v pkg-config >/dev/null || missing="$missing pkg-config"
pkg-config --exists libdpdk 2>/dev/null || missing="$missing libdpdk-dev"
if [ -n "$missing" ]; then
    if [ "$(id -u)" -ne 0 ]; then
        echo "build.sh: missing packages:$missing" >&2
        echo "build.sh: install them, or run this as root" >&2
        exit 1
    fi
    # shellcheck disable=SC2086  # a list of words
    apt-get install -y --no-install-recommends $missing
fi

mkdir -p "$out"
for peer in lpm acl hash; do
    # shellcheck disable=SC2046  # lists of words
    gcc -O3 -march=native -std=gnu11 -Wall -Wextra -Werror -o "$out/peer-$peer" "$here/$peer.c" \
        $(pkg-config --cflags libdpdk) $(pkg-config --libs libdpdk)
    echo "$out/peer-$peer"
done
