"""A client of a debug adapter, as tests and measurements have it."""

import json
import subprocess
import sys


class Client:
    """An adapter, and what it has said that nobody wanted yet."""

    def __init__(self, words):
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.number, self.kept, self.output = 0, [], ""

    def receive(self):
        """The next message."""
        length = 0
        while line := self.process.stdout.readline().strip():
            name, value = line.split(b":")
            if name == b"Content-Length":
                length = int(value)
        if not length:
            sys.exit(f"the adapter has ended; {self.output}")
        message = json.loads(self.process.stdout.read(length))
        if message["type"] == "event" and message["event"] == "output":
            self.output += message["body"]["output"]
        return message

    def wait(self, is_wanted):
        """The first message that is wanted."""
        while not any(map(is_wanted, self.kept)):
            self.kept.append(self.receive())
        message = next(filter(is_wanted, self.kept))
        self.kept.remove(message)
        return message

    def write(self, request):
        """Gives a request to the adapter."""
        body = json.dumps(request).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self.process.stdin.flush()

    def send(self, command, **arguments):
        """Asks for something; the number of the request."""
        self.number += 1
        self.write({"seq": self.number, "type": "request", "command": command, "arguments": arguments})
        return self.number

    def response(self, number):
        """The answer to a request, also if it is refused."""
        return self.wait(lambda it: it["type"] == "response" and it["request_seq"] == number)

    def answer(self, number):
        """What the answer to a request says."""
        answer = self.response(number)
        if not answer["success"]:
            sys.exit(f"{answer['command']}: {answer['message']}; {self.output}")
        return answer.get("body")

    def ask(self, command, **arguments):
        """Asks, and waits for the answer."""
        return self.answer(self.send(command, **arguments))

    def event(self, name):
        """Waits for an event."""
        return self.wait(lambda it: it["type"] == "event" and it["event"] == name)["body"]

    def begin(self, request, configure=lambda: None, **arguments):
        """As editors do it; where it stops first."""
        about = self.ask("initialize", adapterID="retrovane", linesStartAt1=True, pathFormat="path")
        if not about["supportsStepBack"]:
            sys.exit("it cannot go back")
        self.ask(request, **arguments)
        self.event("initialized")
        configure()
        self.ask("configurationDone")
        return self.event("stopped")

    def move(self, command, **arguments):
        """A movement, and where it stops."""
        self.ask(command, **arguments)
        return self.event("stopped")

    def frames(self, thread, levels=20):
        return self.ask("stackTrace", threadId=thread, startFrame=0, levels=levels)["stackFrames"]
