#!/bin/sh
# A screen dump by xwd has other pixels as soon as any window has another visual.
#
# Guess: xwd -root writes the screen in the format of its root window: at depth 24 TrueColor
#   with 32 bits for each pixel, as XGetImage(3) of that window gives it, whatever lies on it.
# Seen: so it is while each window has the root's visual. With one small window of depth 32 (as
#   GTK makes them) the header of the very same screen says DirectColor and 24 bits for each
#   pixel, and pixels take 3 bytes; a line still takes 4 bytes for each pixel, so a quarter of it
#   is unused, and the file has the same length. A window of depth 24 with a colormap of its
#   own is enough. When it is gone, the dump is as before. netpbm's xwdtopnm makes 8-bit samples of
#   the first dump and 16-bit samples (maxval 65535, twice the bytes) of the second, with other
#   values: a pixel 0x336699 is 51 102 153 and 13107 26214 39321.
# Software: xwd of x11-apps 7.7+9, netpbm 11.01.00, python-xlib 0.33, Xvfb 21.1.7 (package xvfb, to be there).
# Why it matters: whoever compares screenshots compares files or lines of them, and reads the format
#   once. Two dumps of equal screens differ in nearly every byte if a window with alpha lies somewhere
#   on one of them, and a reader that takes the width times 4 for granted, as the length of the line
#   suggests, gets a picture that is squeezed and has wrong colours.
set -eu
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$dir"' EXIT
cd "$dir"
command -v Xvfb >/dev/null || { echo "Xvfb is wanted: apt-get install xvfb" >&2; exit 2; }
chmod 755 .
for package in x11-apps=7.7+9 netpbm=2:11.01.00-2 libnetpbm11=2:11.01.00-2; do
	apt-get download -q "$package" >/dev/null 2>&1
done
for package in *.deb; do dpkg -x "$package" root; done
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check python-xlib==0.33 six==1.17.0
Xvfb -displayfd 3 -screen 0 640x480x24 -noreset 3>display 2>/dev/null &
server=$!
while ! [ -s display ]; do sleep 0.1; done
cat > look.py <<'PY'
import os, struct, subprocess, sys
from Xlib import X, display

COLOUR = 0x336699
LIBRARIES = {**os.environ, "LD_LIBRARY_PATH": "root/usr/lib/x86_64-linux-gnu"}
connection = display.Display()
root = connection.screen().root
root.change_attributes(background_pixel=0)
root.clear_area()


def window(depth, has_own_colormap):
    visual = next(a for a in connection.screen().allowed_depths if a.depth == depth).visuals[0].visual_id
    own = {"colormap": root.create_colormap(visual, X.AllocNone), "border_pixel": 0} if has_own_colormap else {}
    made = root.create_window(10, 10, 50, 50, 0, depth, X.InputOutput, visual if has_own_colormap else X.CopyFromParent,
                              background_pixel=COLOUR | (0xff << 24 if depth == 32 else 0), **own)
    made.map()
    connection.sync()
    return made


def dump(what):
    data = subprocess.run(["root/usr/bin/xwd", "-root", "-silent"], check=True, capture_output=True).stdout
    header = struct.unpack(">25I", data[:100])
    begin = header[0] + 12 * header[19]
    line = data[begin + 20 * header[12]:begin + 21 * header[12]]
    first = next((at for at, byte in enumerate(line) if byte), None)
    made = subprocess.run(["root/usr/bin/xwdtopnm", "-quiet"], input=data, check=True, capture_output=True, env=LIBRARIES)
    most = int(made.stdout.split(b"\n", 3)[2])
    size = 1 if most < 256 else 2
    samples = made.stdout.split(b"\n", 3)[3]
    at = 3 * size * (20 * 640 + 30)
    pixel = [int.from_bytes(samples[at + size * n:at + size * (n + 1)], "big") for n in range(3)]
    seen = dict(visual_class=header[13], bits=header[11], line=header[12], length=len(data), first=first, maxval=most,
                pixel=pixel)
    print(f"{what:32}", *(f"{name}={value}" for name, value in seen.items()))
    return seen


shown = []
for what, depth, own in (("depth 24, the root's visual", 24, False), ("depth 24, a colormap of its own", 24, True),
                         ("depth 32", 32, True), ("depth 24, the root's, once more", 24, False)):
    made = window(depth, own)
    shown.append(dump(what))
    made.destroy()
    connection.sync()
TRUE_COLOUR, DIRECT_COLOUR = 4, 5
plain = dict(visual_class=TRUE_COLOUR, bits=32, line=2560, length=shown[0]["length"], first=40, maxval=255, pixel=[51, 102, 153])
other = dict(plain, visual_class=DIRECT_COLOUR, bits=24, first=30, maxval=65535, pixel=[13107, 26214, 39321])
sys.exit(0 if shown == [plain, other, other, plain] else 1)
PY
DISPLAY=":$(cat display)" venv/bin/python look.py
echo "as described: a window with another visual changes the pixels of the whole dump"
