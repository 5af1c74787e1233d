#!/bin/sh
# A core dump with 70000 mappings reads as 65535 or as 10000 segments.
#
# Guess: an ELF file can have more program headers than its 16-bit count holds. The
#   count is then 0xffff (PN_XNUM) and the true one stands in sh_info of section
#   header 0. Linux writes cores of processes with many mappings in that way, so the
#   libraries that read cores follow it, or refuse the file.
# Seen: a core with 70000 program headers, the last of which has the only data:
#   * GNU readelf says "65535 (70000)", pyelftools finds all 70000;
#   * Go's debug/elf gives 65535, without an error;
#   * LIEF gives 10000, without an exception.
#   Both answers lack the segment with the data. Go's debug/elf takes the 16-bit
#   field as it stands. LIEF stops at 10000 whatever the field says: a core with
#   12000 program headers and a plain count has 10000 as well.
# Software: lief 1.0.0, pyelftools 0.33, Go 1.26.8, GNU binutils 2.40.
# Why it matters: a process with many threads or small mappings can reach tens of
#   thousands of mappings, and the kernel's limit (vm.max_map_count) can be raised.
#   A tool that writes cores, or that turns cores into checkpoints, cannot take a
#   reader's number of segments as complete; comparing it with sh_info of section 0
#   shows the loss.
set -eu
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check lief==1.0.0 pyelftools==0.33
cd "$dir"
cat > make.py <<'PY'
import struct, sys

name, count = sys.argv[1], int(sys.argv[2])
headers, sections = 64, 64 + count * 56
note = struct.pack("<III", 5, 16, 6) + b"CORE\0\0\0\0" + struct.pack("<QQ", 0, 0)  # NT_AUXV, AT_NULL
notes, data = sections + 64, sections + 64 + len(note)
out = b"\x7fELF" + bytes([2, 1, 1, 0]) + bytes(8)
out += struct.pack("<HHIQQQIHHHHHH", 4, 62, 1, 0, headers, sections, 0, 64, 56, min(count, 0xFFFF), 64, 1, 0)
program = [struct.pack("<IIQQQQQQ", 4, 0, notes, 0, 0, len(note), 0, 4)]
for i in range(1, count):
    size = 16 if i == count - 1 else 0
    program.append(struct.pack("<IIQQQQQQ", 1, 4, data, 0x10000000 + i * 0x2000, 0, size, 0x1000, 1))
extended = count if count >= 0xFFFF else 0
out += b"".join(program) + struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 0, 0, extended, 0, 0) + note + b"the only content"
open(name, "wb").write(out)
PY
python3 make.py many.core 70000
python3 make.py plain.core 12000
cat > count.py <<'PY'
import sys, lief
from elftools.elf.elffile import ELFFile

with open(sys.argv[2], "rb") as file:
    elf = ELFFile(file)
    if sys.argv[1] == "pyelftools":
        print(elf.num_segments(), any(s["p_filesz"] == 16 for s in elf.iter_segments("PT_LOAD")))
    else:
        segments = lief.ELF.parse(sys.argv[2]).segments
        print(len(segments), any(s.physical_size == 16 for s in segments))
PY
cat > count.go <<'GO'
package main

import (
	"debug/elf"
	"fmt"
	"log"
	"os"
)

func main() {
	file, err := elf.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	data := false
	for _, program := range file.Progs {
		data = data || program.Type == elf.PT_LOAD && program.Filesz == 16
	}
	fmt.Println(len(file.Progs), map[bool]string{true: "True", false: "False"}[data])
}
GO
GOCACHE="$dir/go-cache" GOPATH="$dir/go" GO111MODULE=off go build -o count-go count.go

failed=0
expect() { # what, wanted, got
    echo "$1: $3"
    [ "$2" = "$3" ] || { echo "  CHANGED: expected: $2" >&2; failed=1; }
}
readelf --version | head -n 1
go version
venv/bin/pip list --disable-pip-version-check 2>/dev/null | grep -iE '^(lief|pyelftools) '
echo "program headers, and whether the one with data is among them"
expect "readelf, 70000" "65535 (70000)" "$(readelf -h many.core | sed -n 's/.*Number of program headers: *//p')"
expect "pyelftools, 70000" "70000 True" "$(venv/bin/python count.py pyelftools many.core)"
expect "debug/elf, 70000" "65535 False" "$(./count-go many.core)"
expect "LIEF, 70000" "10000 False" "$(venv/bin/python count.py lief many.core 2>/dev/null)"
expect "debug/elf, 12000" "12000 True" "$(./count-go plain.core)"
expect "LIEF, 12000" "10000 False" "$(venv/bin/python count.py lief plain.core 2>/dev/null)"
exit $failed
