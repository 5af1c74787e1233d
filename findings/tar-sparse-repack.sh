#!/bin/sh
# A sparse file does not survive the plain loop that copies a tar archive.
#
# Guess: to copy an archive member by member, one passes the header that was read to
#   the writer, with the bytes that were read. The copy holds the same files. Both
#   standard libraries below read sparse members well, holes filled.
# Seen: a 1 MiB sparse file with two words in it, archived by GNU tar, then copied
#   by that loop:
#   * Python tarfile, POSIX format, sparse map 0.1: every byte of the copy reads
#     as zero, for Python and for GNU tar, without an error. With map 1.0 (GNU
#     tar's usual choice in POSIX format) the copy cannot be read by Python.
#   * Go archive/tar, old GNU format: GNU tar takes an empty file from the copy
#     and exits with 0.
#   Cause: the reader expands the file but leaves the marks of a sparse member on
#   the header: the GNU.sparse.* records in Python, the type flag 'S' in Go. The
#   writer writes these marks again, and the expanded data is then read as if it
#   were packed. Go drops the records of the POSIX format when it writes, so the
#   same loop is right there.
# Software: CPython 3.11.7 tarfile, Go 1.26.8 archive/tar, GNU tar 1.34.
# Why it matters: memory images and core dumps are sparse, and `tar --sparse` is the
#   usual way to pack them. A tool that filters or renames the members of such an
#   archive (a container layer, a checkpoint bundle) can empty the memory image and
#   report success. Clear the marks before writing.
set -eu
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
python3 --version
go version
tar --version | head -n 1

python3 - <<'PY'
with open("image", "wb") as image:
    image.truncate(1 << 20)
    for offset, word in ((300000, b"hello"), (800000, b"world")):
        image.seek(offset)
        image.write(word)
PY
pack() { tar --sparse "$@" image; }
pack --format=posix --sparse-version=0.1 -cf posix01.tar
pack --format=posix --sparse-version=1.0 -cf posix10.tar
pack --format=gnu -cf gnu.tar

cat > repack.py <<'PY'
import sys, tarfile
with tarfile.open(sys.argv[1]) as source, tarfile.open(sys.argv[2], "w") as copy:
    for member in source:
        copy.addfile(member, source.extractfile(member))
PY
cat > repack.go <<'GO'
package main

import (
	"archive/tar"
	"io"
	"log"
	"os"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	in, err := os.Open(os.Args[1])
	check(err)
	out, err := os.Create(os.Args[2])
	check(err)
	reader, writer := tar.NewReader(in), tar.NewWriter(out)
	for {
		header, err := reader.Next()
		if err == io.EOF {
			break
		}
		check(err)
		check(writer.WriteHeader(header))
		_, err = io.Copy(writer, reader)
		check(err)
	}
	check(writer.Close())
}
GO
GOCACHE="$dir/go-cache" GOPATH="$dir/go" GO111MODULE=off go build -o repack-go repack.go
cat > look.py <<'PY'
import sys, tarfile
try:
    with tarfile.open(sys.argv[1]) as archive:
        data = archive.extractfile(archive.getmembers()[0]).read()
    print(len(data), "all zero" if not any(data) else "with words" if b"hello" in data else "other")
except ValueError as error:
    print("ValueError:", error)
PY
gnu_tar() { # what GNU tar takes from an archive
    tar -xOf "$1" > out && status=0 || status=$?
    echo "$(wc -c < out | tr -d ' ') bytes, $(tr -d '\000' < out | wc -c | tr -d ' ') not zero, exit $status"
}

failed=0
expect() { # what, wanted, got
    echo "$1: $3"
    [ "$2" = "$3" ] || { echo "  CHANGED: expected: $2" >&2; failed=1; }
}
for name in posix01 posix10 gnu; do
    expect "original $name, GNU tar" "1048576 bytes, 10 not zero, exit 0" "$(gnu_tar $name.tar)"
    expect "original $name, Python" "1048576 with words" "$(python3 look.py $name.tar)"
    python3 repack.py $name.tar python-$name.tar
    ./repack-go $name.tar go-$name.tar
done
expect "Python's copy of posix01, Python" "1048576 all zero" "$(python3 look.py python-posix01.tar)"
expect "Python's copy of posix01, GNU tar" "1048576 bytes, 0 not zero, exit 0" "$(gnu_tar python-posix01.tar)"
case $(python3 look.py python-posix10.tar) in
    ValueError:*) echo "Python's copy of posix10, Python: ValueError" ;;
    *) echo "  CHANGED: Python reads its copy of posix10" >&2; failed=1 ;;
esac
expect "Go's copy of gnu, GNU tar" "0 bytes, 0 not zero, exit 0" "$(gnu_tar go-gnu.tar)"
expect "Go's copy of posix01, GNU tar" "1048576 bytes, 10 not zero, exit 0" "$(gnu_tar go-posix01.tar)"
exit $failed
