#!/bin/sh
# Records real kernel traffic through a Linux gateway, for the replay tests:
#
#     left host ── left link ── gateway ── right link ── right host
#
# Each is a network namespace of its own, so that nothing outside is touched. The gateway forwards with the kernel's
# own forwarding plane; what it received and what it sent is kept per link and direction:
#
#     DIR/SCENARIO/left-in.pcap    what the gateway received on the left      right-in.pcap
#     DIR/SCENARIO/left-out.pcap   what the gateway sent to the left          right-out.pcap
#
# Usage: record.sh DIR [SCENARIO…]       needs root; takes about ten seconds for each of the scenarios
set -eu

if [ $# -lt 1 ]; then
    echo "usage: $0 DIR [plain|narrow|vlan|jumbo|crafted]…" >&2
    exit 2
fi
out=$1
shift
[ $# -gt 0 ] || set -- plain narrow vlan jumbo crafted
for scenario; do
    case $scenario in
        plain | narrow | vlan | jumbo | crafted) ;;
        *) echo "$0: no scenario $scenario" >&2; exit 2 ;;
    esac
done

[ "$(id -u)" = 0 ] || { echo "$0: only root may make network namespaces" >&2; exit 1; }
for tool in ip ethtool tcpdump ping python3 sysctl timeout; do
    command -v $tool >/dev/null || { echo "$0: $tool is missing (Debian: iproute2 ethtool tcpdump iputils-ping python3 procps coreutils)" >&2; exit 1; }
done

here=$(cd "$(dirname "$0")" && pwd)
left=weir-left-$$
gate=weir-gate-$$
right=weir-right-$$
jobs=

in_left() { ip netns exec "$left" "$@"; }
in_right() { ip netns exec "$right" "$@"; }

clean() {
    # shellcheck disable=SC2086
    [ -z "$jobs" ] || kill $jobs 2>/dev/null || true
    jobs=
    for space in "$left" "$gate" "$right"; do
        ip netns del "$space" 2>/dev/null || true
    done
}
trap clean EXIT
trap 'exit 1' INT TERM

# setup LEFT_MTU RIGHT_MTU
setup() {
    for space in "$left" "$gate" "$right"; do
        ip netns add "$space"
        # Quiet links: no autoconfiguration, no duplicate address detection, no router solicitations. Errors unlimited.
        ip netns exec "$space" sysctl -qw \
            net.ipv6.conf.default.addr_gen_mode=1 net.ipv6.conf.default.accept_dad=0 \
            net.ipv6.conf.default.accept_ra=0 net.ipv6.conf.default.router_solicitations=0 \
            net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 \
            net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.default.send_redirects=0 \
            net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0
        ip -n "$space" link set lo up
    done
    ip netns exec "$gate" sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv6.conf.default.forwarding=1

    ip link add l0 netns "$left" address 02:00:00:00:0a:02 type veth peer name gl netns "$gate" address 02:00:00:00:0a:01
    ip link add r0 netns "$right" address 02:00:00:00:0b:02 type veth peer name gr netns "$gate" address 02:00:00:00:0b:01
    up "$left" l0 "$1"
    up "$gate" gl "$1"
    up "$gate" gr "$2"
    up "$right" r0 "$2"

    link "$left" l0 10.1.0.2/24 2001:db8:1::2/64 10.1.0.1 2001:db8:1::1 02:00:00:00:0a:01
    link "$gate" gl 10.1.0.1/24 2001:db8:1::1/64 10.1.0.2 2001:db8:1::2 02:00:00:00:0a:02
    link "$gate" gr 10.2.0.1/24 2001:db8:2::1/64 10.2.0.2 2001:db8:2::2 02:00:00:00:0b:02
    link "$right" r0 10.2.0.2/24 2001:db8:2::2/64 10.2.0.1 2001:db8:2::1 02:00:00:00:0b:01
    ip -n "$left" route add default via 10.1.0.1
    ip -n "$left" route add default via 2001:db8:1::1
    ip -n "$right" route add default via 10.2.0.1
    ip -n "$right" route add default via 2001:db8:2::1
    ip -n "$gate" route add blackhole 203.0.113.0/24
    ip -n "$gate" route add unreachable 198.51.100.0/24
    ip -n "$gate" route add blackhole 2001:db8:b::/48
    ip -n "$gate" route add unreachable 2001:db8:c::/48
}

# up NAMESPACE DEVICE MTU: what a packet looks like on the wire is settled here, not by an offload later.
up() {
    ip netns exec "$1" ethtool -K "$2" rx off tx off tso off gso off gro off rxvlan off txvlan off >/dev/null 2>&1 || true
    ip -n "$1" link set "$2" mtu "$3" up
}

# link NAMESPACE DEVICE ADDRESS4 ADDRESS6 PEER4 PEER6 PEER_MAC: neighbours are static, so that nobody asks.
link() {
    ip -n "$1" address add "$3" dev "$2"
    ip -n "$1" address add "$4" dev "$2" nodad
    ip -n "$1" neighbor replace "$5" lladdr "$7" dev "$2" nud permanent
    ip -n "$1" neighbor replace "$6" lladdr "$7" dev "$2" nud permanent
}

# tags NAMESPACE DEVICE MAC: VLAN 7, and VLAN 200 in service VLAN 100. Not every kernel has VLAN devices; tap devices,
# whose frames a program tags, look the same from both sides.
tags() {
    ip netns exec "$1" timeout 60 python3 "$here/traffic.py" tags "$2" "$3" &
    jobs="$jobs $!"
    for device in "$2.7" "$2.200"; do
        await ip -n "$1" link show "$device"
        ip -n "$1" link set "$device" mtu 1500 up
    done
}

# await COMMAND…: until it succeeds, for two seconds
await() {
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        ! "$@" >/dev/null 2>&1 || return 0
        sleep 0.1
    done
    echo "$0: $* does not succeed" >&2
    exit 1
}

# capture LINK DEVICE
capture() {
    for direction in in out; do
        file=$out/$scenario/$1-$direction.pcap
        rm -f "$file"
        ip netns exec "$gate" timeout 60 tcpdump -q --immediate-mode -i "$2" -Q "$direction" -s 0 -U -Z root \
            --time-stamp-precision=nano -w "$file" 2>/dev/null &
        jobs="$jobs $!"
    done
    for direction in in out; do
        await test -s "$out/$scenario/$1-$direction.pcap"
    done
}

# pings SIZE… : from the left to the right, in both families
pings() {
    for size; do
        for target in 10.2.0.2 2001:db8:2::2; do
            in_left timeout 5 ping -q -n -c 1 -W 1 -M dont -s "$size" "$target" >/dev/null || true
        done
    done
}

traffic() { in_left timeout 30 python3 "$here/traffic.py" "$@"; }

plain() {
    pings 56 0 1000 1472 4000
    for target in 10.1.0.1 2001:db8:1::1 10.2.0.1 2001:db8:2::1; do
        in_left timeout 5 ping -q -n -c 2 -i 0.05 -W 1 "$target" >/dev/null || true
    done
    in_right timeout 5 ping -q -n -c 2 -i 0.05 -W 1 10.1.0.2 >/dev/null || true
    in_right timeout 5 ping -q -n -c 2 -i 0.05 -W 1 2001:db8:1::2 >/dev/null || true
    for target in 10.2.0.2 2001:db8:2::2; do
        traffic exchange $target 6000
        traffic hops $target
    done
    # No route, a blackhole, an unreachable route, and a port of the gateway that nobody listens on.
    for target in 192.0.2.9 203.0.113.9 198.51.100.9 2001:db8:a::9 2001:db8:b::9 2001:db8:c::9 10.1.0.1 2001:db8:1::1; do
        traffic datagrams $target 3
    done
}

narrow() {
    pings 1200 1300 1450 3000
    for target in 10.2.0.2 2001:db8:2::2; do
        traffic exchange $target 6000
        traffic fragile $target
    done
}

vlan() {
    pings 56 1472
    for net in 7 200; do
        traffic bound l0.$net 10.$net.0.2 10.2.0.2
        traffic bound l0.$net 2001:db8:$net::2 2001:db8:2::2
    done
}

jumbo() {
    pings 8000
    for target in 10.2.0.2 2001:db8:2::2; do
        traffic exchange $target 9000
        traffic large $target
    done
}

crafted() { traffic crafted l0; }

umask 022
for scenario; do
    case $scenario in
        narrow) setup 1500 1280 ;;
        jumbo) setup 9000 9000 ;;
        vlan) setup 1508 1500 ;; # room for two tags
        *) setup 1500 1500 ;;
    esac
    if [ "$scenario" = vlan ]; then
        tags "$left" l0 02:00:00:00:0a:02
        tags "$gate" gl 02:00:00:00:0a:01
        for net in 7 200; do
            link "$left" l0.$net 10.$net.0.2/24 2001:db8:$net::2/64 10.$net.0.1 2001:db8:$net::1 02:00:00:00:0a:01
            link "$gate" gl.$net 10.$net.0.1/24 2001:db8:$net::1/64 10.$net.0.2 2001:db8:$net::2 02:00:00:00:0a:02
            # What comes from a tagged address leaves by its tag.
            ip -n "$left" route add default via 10.$net.0.1 table $net
            ip -n "$left" route add default via 2001:db8:$net::1 table $net
            ip -n "$left" rule add from 10.$net.0.2 table $net
            ip -n "$left" -6 rule add from 2001:db8:$net::2 table $net
        done
    fi
    mkdir -p "$out/$scenario"
    ip netns exec "$right" timeout 60 python3 "$here/traffic.py" serve &
    jobs="$jobs $!"
    sleep 0.5
    capture left gl
    capture right gr
    sleep 0.5
    echo "$scenario"
    $scenario
    sleep 0.5
    # shellcheck disable=SC2086
    kill $jobs 2>/dev/null || true
    wait 2>/dev/null || true
    jobs=
    clean
done
