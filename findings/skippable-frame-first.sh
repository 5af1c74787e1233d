#!/bin/sh
# A skippable frame in front makes readers of zstd and LZ4 return no data.
#
# Guess: zstd and LZ4 files are made of frames. Skippable frames hold metadata, may
#   stand anywhere and count as no data: a reader steps over them. pzstd starts
#   every file with one, and seekable or indexed files hold them too.
# Seen: the same content behind one skippable frame, read by each call:
#     zstandard   stream_reader().read(), copy_stream()      all of it
#                 read_to_iter(), decompressobj()            nothing, no error
#                 decompress()                               an error
#     lz4.frame   open().read()                              all of it
#                 decompress()                               b"", no error
#     pyzstd      decompress()                               all of it
#   `frame_content_size` of zstandard is 0 for it: the size of data in the first
#   frame. The calls that return nothing treat the end of the first frame as the end
#   of the data (decompressobj leaves the rest in unused_data).
# Software: zstandard 0.25.0, lz4 4.4.5, pyzstd 0.19.1, Python 3.11.
# Why it matters: a trace or checkpoint format may want to put an index or a header
#   in a skippable frame, so that ordinary tools can still read the file. In front
#   it makes the file look empty to some of them. At the end of the file it is
#   harmless to every call below.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check zstandard==0.25.0 lz4==4.4.5 pyzstd==0.19.1
cd "$dir"
cat > read.py <<'PY'
import io, struct, sys
from importlib.metadata import version
import lz4.frame, pyzstd, zstandard


def copied(data):
    out = io.BytesIO()
    zstandard.ZstdDecompressor().copy_stream(io.BytesIO(data), out)
    return out.getvalue()


def attempt(read, data):
    try:
        return len(read(data))
    except (zstandard.ZstdError, RuntimeError) as error:
        return f"error: {error}"


content = b"recorded event\n" * 100
skippable = struct.pack("<II", 0x184D2A50, 5) + b"index"
zstd = zstandard.ZstdCompressor().compress(content)
lz4_frame = lz4.frame.compress(content)
calls = [  # name, frame, call, read with the skippable frame in front
    ("zstandard stream_reader().read()", zstd,
     lambda d: zstandard.ZstdDecompressor().stream_reader(io.BytesIO(d)).read(), 1500),
    ("zstandard copy_stream()", zstd, copied, 1500),
    ("zstandard read_to_iter()", zstd,
     lambda d: b"".join(zstandard.ZstdDecompressor().read_to_iter(io.BytesIO(d))), 0),
    ("zstandard decompressobj()", zstd, lambda d: zstandard.ZstdDecompressor().decompressobj().decompress(d), 0),
    ("zstandard decompress()", zstd, lambda d: zstandard.ZstdDecompressor().decompress(d), "error"),
    ("pyzstd decompress()", zstd, pyzstd.decompress, 1500),
    ("lz4.frame open().read()", lz4_frame, lambda d: lz4.frame.open(io.BytesIO(d)).read(), 1500),
    ("lz4.frame decompress()", lz4_frame, lz4.frame.decompress, 0),
]
failed = 0
print(", ".join(f"{name} {version(name)}" for name in ("zstandard", "lz4", "pyzstd")))
print("bytes read of 1500, with the skippable frame at the end and in front")
for name, frame, read, wanted in calls:
    end, front = attempt(read, frame + skippable), attempt(read, skippable + frame)
    print(f"{name:34} {end:5} {front}")
    same = front == wanted or wanted == "error" and str(front).startswith("error")
    if end != 1500 or not same:
        print(f"  CHANGED: expected 1500 and {wanted}", file=sys.stderr)
        failed = 1
size = zstandard.frame_content_size(skippable + zstd)
print("zstandard frame_content_size:", size)
sys.exit(failed or size != 0)
PY
venv/bin/python read.py
