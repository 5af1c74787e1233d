"""An editor that speaks to gdb's own debug adapter: adapter.py GDB DAP.PY PROGRAM SOURCE LINE SOCKET.
Goes on to a line three times, and back; tells where it is each time."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../dap"))
from client import Client

GDB, SCRIPT, PROGRAM, SOURCE, LINE, SOCKET = sys.argv[1:]


class Adapter(Client):
    """gdb's own adapter."""

    def stopped(self, how):
        """Tells where it stopped."""
        thread = self.event("stopped")["threadId"]
        frame = self.ask("stackTrace", threadId=thread, startFrame=0, levels=1)["stackFrames"][0]
        scope = self.ask("scopes", frameId=frame["id"])["scopes"][0]
        variables = self.ask("variables", variablesReference=scope["variablesReference"])["variables"]
        values = ", ".join(f"{one['name']} = {one['value']}" for one in variables)
        print(f"{how}: {frame['name']} {values}", flush=True)
        return thread


adapter = Adapter([GDB, "-q", "-nx", "-iex", f"source {SCRIPT}", "-i", "dap"])
print("goes back:", adapter.ask("initialize", adapterID="gdb", linesStartAt1=True)["supportsStepBack"])
attaching = adapter.send("attach", program=PROGRAM, target=SOCKET)
adapter.wait(lambda it: it["type"] == "event" and it["event"] == "initialized")
adapter.ask("setBreakpoints", source={"path": SOURCE}, breakpoints=[{"line": int(LINE)}])
adapter.ask("configurationDone")
adapter.answer(attaching)
thread = adapter.event("stopped")["threadId"]
for request in ("continue", "continue", "continue", "reverseContinue", "stepBack", "reverseContinue", "next"):
    adapter.send(request, threadId=thread)
    thread = adapter.stopped(request)
adapter.ask("disconnect")
