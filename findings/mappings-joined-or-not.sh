#!/bin/sh
# Three anonymous neighbours with the same rights are one mapping, or two, by what was written before.
#
# Guess: /proc/PID/maps shows who mapped what: a mapping is what one mmap(2) made, or the kernel joins all neighbours
#   that have the same rights and flags, so that the lines depend on the calls alone.
# Seen: two pages, and then a third one between them, all of them private, anonymous, readable, writable and executable.
#   Written to by nobody: one line. If both outer pages were written to before the third was mapped: two lines, and that stays
#   so when the third is written to as well: each written mapping has an anon_vma of its own, and those are not joined.
#   One written page and a new neighbour are one line. A page that had madvise(2) with MADV_RANDOM, which does nothing that is
#   seen for anonymous memory, is never joined with a neighbour that had not. proc(5) and mmap(2) say nothing of it.
# Software: Linux 6.18 (mm/vma.c, vma_merge_new_range, is_mergeable_anon_vma), x86-64; Python 3.11 to look.
# Why it matters: a tool that puts memory of its own into a process, and tells it from the process's by where a mapping
#   begins, has it joined with what a compiler of the process maps for its code beside it, or not, from run to run.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cat > "$dir/look.py" <<'PY'
import ctypes, mmap, os, sys

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
PAGE = mmap.PAGESIZE
PRIVATE_ANONYMOUS, FIXED_NOREPLACE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, 0x100000
RIGHTS = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC


def free_place():
    """Where nothing is, and nothing beside it."""
    start = libc.mmap(None, 9 * PAGE, 0, PRIVATE_ANONYMOUS, -1, 0)
    assert libc.munmap(start, 9 * PAGE) == 0
    return start + 3 * PAGE


def lines(actions):
    """How many lines of the list three pages have, after these actions: (page, what)."""
    first = free_place()
    for page, what in actions:
        place = first + page * PAGE
        if what == "map":
            assert libc.mmap(place, PAGE, RIGHTS, PRIVATE_ANONYMOUS | FIXED_NOREPLACE, -1, 0) == place
        elif what == "advise":
            assert libc.madvise(place, PAGE, mmap.MADV_RANDOM) == 0
        else:
            ctypes.memset(place, 1, 1)
    ranges = [line.split()[0].split("-") for line in open("/proc/self/maps")]
    ranges = [(int(start, 16), int(end, 16)) for start, end in ranges]
    count = sum(start < first + 3 * PAGE and end > first for start, end in ranges)
    assert libc.munmap(first, 3 * PAGE) == 0
    return count


outer, between = [(0, "map"), (2, "map")], (1, "map")
seen = {
    "none written": lines([*outer, between]),
    "one written": lines([(0, "map"), (0, "write"), (2, "map"), between]),
    "both written": lines([(0, "map"), (0, "write"), (2, "map"), (2, "write"), between]),
    "all written": lines([(0, "map"), (0, "write"), (2, "map"), (2, "write"), between, (1, "write")]),
    "one advised": lines([(0, "map"), (0, "advise"), (2, "map"), between]),
}
print(os.uname().release, seen)
expected = {"none written": 1, "one written": 1, "both written": 2, "all written": 2, "one advised": 2}
sys.exit(0 if seen == expected else 1)
PY
if python3 "$dir/look.py"; then
	echo "as described: the same calls make one mapping or two, by what was written between them"
else
	echo "CHANGED: other lines than described" >&2
	exit 1
fi
