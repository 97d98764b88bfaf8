#!/usr/bin/env bash
# Puts weir between two hosts and lets them talk: three network namespaces of this machine, two hosts and the gateway, with a
# cable (a veth pair) from each host to the gateway. Nothing leaves the machine, and all is removed at the end, whatever
# happens. Needs root, iproute2 and iputils-ping; shows a traceroute if there is one. Takes a few seconds.
#
#   examples/two-hosts.sh
#
# WEIR names the program (target/release/weir unless given).
set -euo pipefail
cd "$(dirname "$0")/.."

weir=${WEIR:-target/release/weir}
say() { echo "two-hosts: $*" >&2; }
if [ "$(id -u)" -ne 0 ]; then
    say "needs root, to make network namespaces"
    exit 1
fi
for program in ip ping "$weir"; do
    command -v "$program" >/dev/null || { say "there is no $program"; exit 1; }
done

scratch=$(mktemp -d)
export WEIR_SOCKET=$scratch/weir.sock
namespaces=()
gateway=
clean_up() {
    local code=$?
    trap - EXIT
    if [ -n "$gateway" ]; then
        kill "$gateway" 2>/dev/null || true
        wait "$gateway" 2>/dev/null || true
    fi
    for namespace in "${namespaces[@]}"; do
        ip netns delete "$namespace" || true
    done
    rm -rf "$scratch"
    exit "$code"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# A namespace of this name; one that is there already is not ours.
namespace() {
    ip netns add "$1"
    namespaces+=("$1")
    ip -n "$1" link set lo up
}

# host NAME IPV4 IPV6 NET4 NET6: a host, its cable to the gateway, and routes to the other side, but none to anywhere else.
host() {
    namespace "weir-$1"
    ip link add eth0 netns "weir-$1" type veth peer name "weir-$1" netns weir-gate
    ip -n weir-gate link set "weir-$1" addrgenmode none up
    ip -n "weir-$1" link set eth0 up
    ip -n "weir-$1" address add "$2.7/24" dev eth0
    ip -n "weir-$1" address add "$3::7/64" dev eth0 nodad
    ip -n "weir-$1" route add "$4.0/24" via "$2.1"
    ip -n "weir-$1" route add "$5::/64" via "$3::1"
}
namespace weir-gate
# The gateway's kernel has no part in this.
ip netns exec weir-gate sh -c 'echo 0 >/proc/sys/net/ipv4/ip_forward'
host left 192.0.2 2001:db8:1 198.51.100 2001:db8:2
host right 198.51.100 2001:db8:2 192.0.2 2001:db8:1

ip netns exec weir-gate "$weir" run examples/two-hosts.toml --duration 60 >"$scratch/summary" 2>"$scratch/log" &
gateway=$!
# IPv6 addresses are ours when nobody else has claimed them for a second or two.
ready() { "$weir" show interfaces 2>/dev/null >"$scratch/interfaces" && ! grep -q tentative "$scratch/interfaces"; }
for _ in $(seq 100); do
    ready && break
    kill -0 "$gateway" 2>/dev/null || break
    sleep 0.1
done
ready || { say "weir does not come up:"; cat "$scratch/log" >&2; exit 1; }

show() {
    echo "\$ $*"
    "$@"
    echo
}
on_the_left() {
    echo "left\$ $*"
    ip netns exec weir-left "$@"
    echo
}
on_the_left ping -n -c 3 -i 0.2 -w 5 198.51.100.7
on_the_left ping -n -c 3 -i 0.2 -w 5 2001:db8:2::7
if command -v traceroute >/dev/null; then
    on_the_left traceroute -n -q 1 -w 1 -m 4 198.51.100.7
    on_the_left traceroute -n -q 1 -w 1 -m 4 2001:db8:2::7
fi
PATH=$(cd "$(dirname "$(command -v "$weir")")" && pwd):$PATH
show weir show neighbors
show weir show interfaces

kill "$gateway"
wait "$gateway"
gateway=
tail -n 2 "$scratch/summary"
