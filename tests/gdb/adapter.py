"""An editor that speaks to gdb's own debug adapter: adapter.py GDB DAP.PY PROGRAM SOURCE LINE SOCKET.
Goes on to a line three times, and back; tells where it is each time."""

import json
import subprocess
import sys

GDB, SCRIPT, PROGRAM, SOURCE, LINE, SOCKET = sys.argv[1:]


class Adapter:
    """gdb, and what it has said that nobody wanted yet."""

    def __init__(self):
        words = [GDB, "-q", "-nx", "-iex", f"source {SCRIPT}", "-i", "dap"]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.number = 0
        self.kept = []

    def receive(self):
        """The next message."""
        length = 0
        while line := self.process.stdout.readline().strip():
            name, value = line.split(b":")
            if name == b"Content-Length":
                length = int(value)
        if not length:
            sys.exit("gdb has ended")
        return json.loads(self.process.stdout.read(length))

    def wait(self, is_wanted):
        """The first message that is wanted."""
        while not any(map(is_wanted, self.kept)):
            self.kept.append(self.receive())
        message = next(filter(is_wanted, self.kept))
        self.kept.remove(message)
        return message

    def send(self, command, **arguments):
        """Asks for something; the number of the request."""
        self.number += 1
        request = {"seq": self.number, "type": "request", "command": command, "arguments": arguments}
        body = json.dumps(request).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self.process.stdin.flush()
        return self.number

    def answer(self, number):
        """The answer to a request."""
        answer = self.wait(lambda it: it["type"] == "response" and it["request_seq"] == number)
        if not answer["success"]:
            sys.exit(f"{answer['command']}: {answer}")
        return answer.get("body")

    def ask(self, command, **arguments):
        """Asks, and waits for the answer."""
        return self.answer(self.send(command, **arguments))

    def event(self, name):
        """Waits for an event."""
        return self.wait(lambda it: it["type"] == "event" and it["event"] == name)["body"]

    def stopped(self, how):
        """Tells where it stopped."""
        thread = self.event("stopped")["threadId"]
        frame = self.ask("stackTrace", threadId=thread, startFrame=0, levels=1)["stackFrames"][0]
        scope = self.ask("scopes", frameId=frame["id"])["scopes"][0]
        variables = self.ask("variables", variablesReference=scope["variablesReference"])["variables"]
        values = ", ".join(f"{one['name']} = {one['value']}" for one in variables)
        print(f"{how}: {frame['name']} {values}", flush=True)
        return thread


adapter = Adapter()
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
