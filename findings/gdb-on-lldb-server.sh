#!/bin/sh
# gdb cannot be the client of lldb-server, though that serves gdb's remote protocol.
#
# Guess: `lldb-server gdbserver` speaks the protocol of gdb's stubs (LLDB's documents call it so and list its extensions), and it
#   sends a target description, so gdb 13 can at least attach to it and show registers of an x86-64 program.
# Seen: it stops at the first answer, for two reasons, one behind the other. The description names the architecture `x86_64`, where
#   gdb knows `i386:x86-64`: gdb throws the whole description away. With a description of one's own (`set tdesc filename`) the
#   stop reply ends it: register 0x11, the flags, has 4 bytes in gdb and 8 here, and gdb says "Remote register badly
#   formatted". The session has no registers in either case. Both are there with a program that does nothing.
# Software: gdb 13.1 (to be there; its version is printed), lldb-server 14.0.6, both of Debian 12, x86-64.
# Why it matters: a server that is to be used by both debuggers has to find out by the first packets which of the two asks, as one
#   description, and one stop reply, does not fit both: the widths of registers that are sent unasked are part of the protocol.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
command -v gdb >/dev/null || { echo "gdb is wanted: apt-get install gdb" >&2; exit 2; }
chmod 755 .
for package in lldb-14=1:14.0.6-12 libllvm14=1:14.0.6-12 libclang-cpp14=1:14.0.6-12 libedit2=3.1-20221030-2 libz3-4=4.8.12-3.1; do
	apt-get download -q "$package" >/dev/null 2>&1
done
for package in *.deb; do dpkg -x "$package" root; done
gdb --version | head -n 1
printf '<?xml version="1.0"?><!DOCTYPE target SYSTEM "gdb-target.dtd"><target><architecture>i386:x86-64</architecture></target>' > own.xml

# What gdb says as the client of a new server, after a command of its own.
session() {
	port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	LD_LIBRARY_PATH=$dir/root/usr/lib/x86_64-linux-gnu timeout 30 root/usr/bin/lldb-server-14 gdbserver --native-regs \
		"127.0.0.1:$port" -- /bin/true >server.log 2>&1 &
	server=$!
	tries=0
	until grep -q ":$(printf %04X "$port") .* 0A " /proc/net/tcp || [ "$tries" -ge 100 ]; do tries=$((tries + 1)); sleep 0.1; done
	timeout 25 gdb -nx -batch -ex 'set sysroot /' -ex "$1" -ex "target remote 127.0.0.1:$port" -ex 'info registers rip' 2>&1 || true
	kill "$server" 2>/dev/null || true
	wait "$server" 2>/dev/null || true
}

session 'set confirm off' > plain.txt
session 'set tdesc filename own.xml' > described.txt
code=0
expect() {
	if grep -q "$2" "$1"; then echo "$1: $2"; else echo "CHANGED: $1 does not say: $2" && cat "$1" && code=1; fi
}
expect plain.txt 'unknown architecture "x86_64"'
expect plain.txt 'Could not load XML target description; ignoring'
expect plain.txt 'The program has no registers now'
expect described.txt 'Remote register badly formatted'
expect described.txt 'The program has no registers now'
if grep -q 'unknown architecture' described.txt; then echo "CHANGED: a description of one's own is not taken" && code=1; fi
exit $code
