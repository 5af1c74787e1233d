#!/bin/sh
# addr2line names the right function and the line of one that was dropped.
#
# Guess: `--gc-sections` removes unused functions, and what their debug information
#   says about them can no longer be taken for an address of the program. Tools
#   agree on the line of an address.
# Seen: a position-independent program, in which the linker dropped one function of
#   about 31 KiB. For the first address of the function `called`:
#     GNU addr2line               function `called`, line of `never_called`
#     Go's debug/dwarf            line of `never_called`
#     Rust's addr2line crate      function `called`, its own line
#   Cause: the linker writes address 0 into the debug information of the dropped
#   function. Its code then seems to lie from 0 to 0x7c0b, and a program of this
#   kind starts at 0x1000: the two overlap. With a small dropped function the tools
#   agree, which is why this is seldom seen.
# Software: GNU binutils 2.40 (GCC 12.2.0), Go 1.26.8 debug/dwarf, the Rust crate
#   addr2line 0.27.1.
# Why it matters: a debugger or profiler that turns recorded addresses into lines
#   shows a line that was never in the program, beside the right function name. A
#   reader has to throw away sequences and ranges that start at 0; numbers from GNU
#   addr2line are no reference for such programs.
set -eu
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
{
    echo 'int never_called(volatile int *p)'
    echo '{'
    echo '    volatile int v = *p;'
    for i in $(seq 1600); do printf '    v = v * 31 + %d;' "$i"; done
    printf '\n    return v;\n}\n'
    echo '#line 1000'
    echo 'int called(int x) { return x * 7; }'
    echo 'int main(int count, char **names) { return called(count) + !names; }'
} > program.c
cc -g -O1 -fno-inline -ffunction-sections -fPIE -pie -Wl,--gc-sections -o program program.c
nm program | grep -q never_called && { echo "the linker kept never_called" >&2; exit 1; }
address=$(nm program | awk '$3 == "called" { print $1 }')

mkdir -p rust/src go
cat > rust/Cargo.toml <<'TOML'
[package]
name = "line"
version = "0.0.0"
edition = "2021"
[dependencies]
addr2line = { version = "=0.27.1", features = ["loader"] }
[workspace]
TOML
cat > rust/src/main.rs <<'RS'
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let loader = addr2line::Loader::new(&args[1]).expect("loads");
    let address = u64::from_str_radix(&args[2], 16).expect("hexadecimal");
    let mut frames = loader.find_frames(address).expect("frames");
    let frame = frames.next().expect("reads").expect("one frame");
    println!(
        "{} {}",
        frame.function.expect("function").raw_name().expect("name"),
        frame.location.and_then(|at| at.line).expect("line")
    );
}
RS
cat > line.go <<'GO'
package main

import (
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"log"
	"os"
	"strconv"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	file, err := elf.Open(os.Args[1])
	check(err)
	address, err := strconv.ParseUint(os.Args[2], 16, 64)
	check(err)
	data, err := file.DWARF()
	check(err)
	unit, err := data.Reader().SeekPC(address)
	check(err)
	lines, err := data.LineReader(unit)
	check(err)
	var line dwarf.LineEntry
	check(lines.SeekPC(address, &line))
	fmt.Println(line.Line)
}
GO
export CARGO_TARGET_DIR="$dir/target" GOCACHE="$dir/go-cache" GOPATH="$dir/go" GO111MODULE=off
cargo build -q --manifest-path rust/Cargo.toml
go build -o line-go line.go

failed=0
expect() { # what, wanted, got
    echo "$1: $3"
    [ "$2" = "$3" ] || { echo "  CHANGED: expected: $2" >&2; failed=1; }
}
cc --version | head -n 1
addr2line --version | head -n 1
go version
echo "address 0x$address, the function stands on line 1000"
gnu=$(addr2line -f -e program "$address" | sed 's/.*:\([0-9]*\).*/\1/' | tr '\n' ' ')
expect "GNU addr2line" "called 4 " "$gnu"
expect "Go debug/dwarf" "4" "$(./line-go program "$address")"
expect "Rust addr2line" "called 1000" "$(./target/debug/line program "$address")"
exit $failed
