"""Goes to the places that another gdb wrote down, the last first: each is as it was, and
each place of a keyframe was taken up from the disk."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
import keyframes_state as places

gdb = places.gdb
differences, taken_up, written = 0, 0, 0
for position, then, is_keyframe in reversed(places.stored()):
    places.said("seek " + position)
    now = places.state()
    if now != then:
        differences += 1
        if differences < 4:
            print("differs at", position, [pair for pair in zip(then, now) if pair[0] != pair[1]])
    if is_keyframe:
        written += 1
        standing = places.said("monitor status").split("keyframes are on the disk")[0]
        taken_up += position in standing.split()
print("differences", differences)
print("keyframes", written, "not taken up", written - taken_up)
places.said("seek end")
print("ends at", places.said("when"))
