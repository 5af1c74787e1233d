"""Goes from turn to turn, and writes down what is there; of some of the places it makes
keyframes: behind events, and between them."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
import keyframes_state as places

gdb = places.gdb
gdb.execute("break turn_of")
seen = []
while True:
    gdb.execute("continue", to_string=True)
    if not places.said("info symbol $pc").startswith("turn_of"):
        break
    if len(seen) % 7 == 3:
        places.said("stepi 25")
    place = places.said("when").split()[0]
    seen.append((place, places.state(), len(seen) % 10 == 5))
    if seen[-1][2]:
        print(places.said("keyframe"))
places.store(seen)
print("turns", len(seen))
