#!/bin/sh
# Two new network namespaces do not describe their loopback with the same bytes.
#
# Guess: a new network namespace has one link, lo, which is down and has seen no packet. What
#   rtnetlink says of it (RTM_GETLINK) is the same in each, so that a simulator may pass the
#   kernel's answer on to a program whose runs are to be equal.
# Seen: the answers differ within IFLA_AF_SPEC, AF_INET6, IFLA_INET6_CACHEINFO, and nowhere else:
#     tstamp          when the link was made, in hundredths of a second since the machine's start
#     reachable_time  which the kernel draws anew for each link: 30 s, times 0.5 to 1.5 by chance
#   It is the BaseReachableTime of RFC 4861 (6.3.2), where a host draws it so that neighbours do
#   not probe at once. lo has no neighbours and its IPv6 is not up, but it has a number of its own.
# Software: Linux 6.18, util-linux 2.38, Python 3.11.
# Why it matters: programs that ask for a machine's addresses (getifaddrs of glibc, net.Interfaces
#   of Go) have this answer in their memory. Runs that say and send the same differ in a few pages,
#   and the place looks like memory of the program that nobody initialised.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat > ask.py <<'P'
import socket, struct
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
s.bind((0, 0))
# RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, sequence 7, of all families.
s.send(struct.pack('IHHIIB3x', 20, 18, 0x301, 7, 0, 0))
print(s.recv(65536).hex())
P
cat > compare.py <<'P'
import struct, sys
first, second = (bytearray.fromhex(open(name).read()) for name in sys.argv[1:])
# Whom the answer is for.
first[12:16] = second[12:16] = bytes(4)

def attributes(data, at, end):
    while at + 4 <= end:
        length, kind = struct.unpack_from('HH', data, at)
        yield kind & 0x3fff, at + 4, at + length
        at += (length + 3) & ~3

def inside(data, path):
    at, end = 32, struct.unpack_from('I', data)[0]
    for wanted in path:
        at, end = next((a, e) for kind, a, e in attributes(data, at, end) if kind == wanted)
    return at

places = [inside(data, (26, 10, 5)) for data in (first, second)]
times = [struct.unpack_from('4I', data, at) for data, at in zip((first, second), places)]
for number, (_, tstamp, reachable, _) in enumerate(times, 1):
    print(f'namespace {number}: tstamp {tstamp}, reachable_time {reachable} ms')
by_chance = len({reachable for _, _, reachable, _ in times}) == 2
in_range = all(15000 <= reachable <= 45000 for _, _, reachable, _ in times)
for data, at in zip((first, second), places):
    data[at + 4:at + 12] = bytes(8)
print('all else is the same:', first == second)
sys.exit(0 if by_chance and in_range and first == second else 1)
P
uname -sr
unshare --user --map-root-user --net python3 ask.py > first
sleep 1
unshare --user --map-root-user --net python3 ask.py > second
python3 compare.py first second || { echo "CHANGED: see above"; exit 1; }
