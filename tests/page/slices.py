"""Reads what `timeline --perfetto` wrote with Perfetto's own classes, and compares it with the JSON of the same trace:
slices.py OWN JSON. It is what Perfetto's trace processor needs to find: slices that nest, on tracks that are described, with
names that are known, and flows with two ends."""

import collections
import json
import sys

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket


class Reader:
    """Gathers slices (process, thread, begin and end in microseconds, name, class, notes), flows and tracks."""

    def __init__(self, path):
        self.names, self.classes, self.notes, self.tracks = {}, {}, {}, {}
        self.open, self.slices, self.flows = {}, [], collections.defaultdict(list)
        trace = Trace()
        with open(path, "rb") as file:
            trace.ParseFromString(file.read())
        for packet in trace.packet:
            self.take(packet)
        assert not self.open, "each slice ends"

    def take(self, packet):
        if packet.sequence_flags & TracePacket.SEQ_INCREMENTAL_STATE_CLEARED:
            assert not self.names, "the state is cleared once, in the beginning"
        interned = packet.interned_data
        for into, entries in ((self.names, interned.event_names), (self.classes, interned.event_categories),
                              (self.notes, interned.debug_annotation_names)):
            into.update((entry.iid, entry.name) for entry in entries)
        if packet.HasField("track_descriptor"):
            self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        if packet.HasField("track_event"):
            self.take_event(packet, packet.track_event)

    def take_event(self, packet, event):
        track = self.tracks[event.track_uuid]
        if event.type != event.TYPE_SLICE_BEGIN:
            begin, *rest = self.open.pop(event.track_uuid)
            self.slices.append((track.thread.pid, track.thread.tid, begin // 1000, packet.timestamp // 1000, *rest))
            return
        assert packet.sequence_flags & TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        assert event.track_uuid not in self.open, "slices do not overlap"
        notes = {self.notes[note.name_iid]: note.string_value or note.uint_value for note in event.debug_annotations}
        kind = self.classes[event.category_iids[0]]
        self.open[event.track_uuid] = (packet.timestamp, self.names[event.name_iid], kind, notes)
        for is_begin, ids in ((True, event.flow_ids), (False, event.terminating_flow_ids)):
            for flow in ids:
                self.flows[flow].append((is_begin, packet.timestamp // 1000))


def without_empty(notes):
    return {name: value for name, value in notes.items() if value}


def main(own, as_json):
    found = Reader(own)
    with open(as_json, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    slices = [(event["pid"], event["tid"], event["ts"], event["ts"] + event["dur"], event["name"], event["cat"],
               without_empty(event["args"])) for event in events if event["ph"] == "X"]
    print("slices as in the JSON:", len(slices) > 100 and
          slices == [(*one[:6], without_empty(one[6])) for one in found.slices])
    threads = [track for track in found.tracks.values() if track.HasField("thread")]
    print("tracks:", len(threads) > 10 and all(track.parent_uuid in found.tracks for track in threads))
    arrows = collections.defaultdict(list)
    for event in events:
        if event["ph"] in "sf":
            arrows[event["id"] + 1].append((event["ph"] == "s", event["ts"]))
    print("arrows:", len(arrows) > 10 and {flow: sorted(ends) for flow, ends in found.flows.items()} ==
          {flow: sorted(ends) for flow, ends in arrows.items()})
    print("processes:", sum(track.HasField("process") for track in found.tracks.values()))


main(*sys.argv[1:])
