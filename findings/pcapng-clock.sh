#!/bin/sh
# Three pcapng readers, three files, and no reader gets every time right.
#
# Guess: the unit of a packet's time stamp in pcapng is a property of the interface
#   (option if_tsresol; microseconds without it), the option if_tsoffset moves it,
#   and a new section starts a new list of interfaces. Libraries that read the
#   format follow these few rules.
# Seen: each file holds packets of the same second, 1700000000. Read back:
#     file                          dpkt            scapy        python-pcapng
#     two interfaces, us and ns     2nd: x 1000     right        right
#     two sections, ns then us      2nd: / 1000     2nd: / 1000  right
#     one interface, if_tsoffset    right           ignored      ignored
#   dpkt keeps the unit of the first interface for the whole file. scapy keeps the
#   interfaces of the first section for the sections behind it. None of them raises
#   an error or warns.
# Software: dpkt 1.9.8, scapy 2.8.0, python-pcapng 2.1.1.
# Why it matters: a file with two interfaces (loopback and a bridge) or two sections
#   (files joined by plain concatenation, which the format allows) is what a
#   recorder of several processes writes. A consumer that lines packets up with
#   recorded events gets times off by a factor of 1000. A writer stays on the safe
#   side with one section, one unit for all interfaces and no offset.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check dpkt==1.9.8 scapy==2.8.0 python-pcapng==2.1.1
cd "$dir"
cat > clock.py <<'PY'
import io, logging, struct, sys
from importlib.metadata import version

logging.getLogger("scapy").setLevel(logging.ERROR)
import dpkt, pcapng
from scapy.utils import PcapNgReader


def block(kind, body):
    body += bytes(-len(body) % 4)
    size = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + size + body + size


def option(code, value):
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


SECTION = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))


def interface(resolution, offset=None):
    options = option(9, bytes([resolution]))
    if offset is not None:
        options += option(14, struct.pack("<q", offset))
    return block(1, struct.pack("<HHI", 1, 0, 65535) + options + option(0, b""))


def packet(number, stamp):
    data = bytes(60)
    head = struct.pack("<IIIII", number, stamp >> 32, stamp & 0xFFFFFFFF, len(data), len(data))
    return block(6, head + data)


T = 1700000000
US, NS = interface(6), interface(9)
files = {
    "two interfaces": SECTION + US + NS + packet(0, T * 10**6) + packet(1, T * 10**9),
    "two sections": SECTION + NS + packet(0, T * 10**9) + SECTION + US + packet(0, T * 10**6),
    "offset": SECTION + interface(6, 1600000000) + packet(0, (T - 1600000000) * 10**6),
}
readers = {
    "dpkt": lambda f: [int(t) for t, _ in dpkt.pcapng.Reader(f)],
    "scapy": lambda f: [int(p.time) for p in PcapNgReader(f)],
    "python-pcapng": lambda f: [int(b.timestamp) for b in pcapng.FileScanner(f) if hasattr(b, "timestamp")],
}
expected = {
    ("two interfaces", "dpkt"): [T, T * 1000],
    ("two interfaces", "scapy"): [T, T],
    ("two interfaces", "python-pcapng"): [T, T],
    ("two sections", "dpkt"): [T, T // 1000],
    ("two sections", "scapy"): [T, T // 1000],
    ("two sections", "python-pcapng"): [T, T],
    ("offset", "dpkt"): [T],
    ("offset", "scapy"): [100000000],
    ("offset", "python-pcapng"): [100000000],
}
failed = 0
print(", ".join(f"{name} {version(name)}" for name in readers), f"- the right second is {T}")
for name, content in files.items():
    for reader, read in readers.items():
        seen = read(io.BytesIO(content))
        print(f"{name:15} {reader:14} {seen}")
        if seen != expected[name, reader]:
            print(f"  CHANGED: expected {expected[name, reader]}", file=sys.stderr)
            failed = 1
sys.exit(failed)
PY
venv/bin/python clock.py
