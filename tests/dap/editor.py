"""An editor for tests of `retrovane dap`, which checks each message of the adapter against the
protocol's published schema: editor.py SCHEMA.whl SCENARIO ADAPTER... -- WORD...

The schema is taken from the package debugpy, which ships it as the protocol's own project writes it."""

import json
import os
import subprocess
import sys
import zipfile

import jsonschema

from client import Client

SCHEMA = "debugpy/_vendored/pydevd/_pydevd_bundle/_debug_adapter/debugProtocol.json"


class Schema:
    """The published schema: which definition a message is of, by its command or event."""

    def __init__(self, package):
        with zipfile.ZipFile(package) as files:
            self.schema = json.loads(files.read(SCHEMA))
        self.validators = {}

    def check(self, message):
        """Ends the test if a message is not as its definition says."""
        kind = message["type"]
        name = message["event"] if kind == "event" else message["command"]
        title = name[0].upper() + name[1:] + kind.capitalize()
        if kind == "response" and not message["success"]:
            title = "ErrorResponse"
        if title not in self.schema["definitions"]:
            sys.exit(f"the protocol has no {title}")
        if title not in self.validators:
            whole = {"$ref": f"#/definitions/{title}", "definitions": self.schema["definitions"]}
            self.validators[title] = jsonschema.Draft4Validator(whole)
        for error in self.validators[title].iter_errors(message):
            sys.exit(f"{title}: {error.message} in {message}")


# Requests behind which an editor takes the program for running.
MOVES = {"continue", "next", "stepIn", "stepOut", "stepBack", "reverseContinue"}


class Editor(Client):
    """A client that checks what is said."""

    def __init__(self, schema, words):
        super().__init__(words)
        self.schema, self.last, self.stands = schema, 0, False

    def receive(self):
        """The next message."""
        message = super().receive()
        self.schema.check(message)
        if message["seq"] != self.last + 1:
            sys.exit(f"message {message['seq']} comes behind {self.last}")
        self.last = message["seq"]
        if message["type"] == "event":
            self.note(message["event"], message.get("body"))
        return message

    def note(self, event, body):
        """What an event says. Where the program stands already, nvim-dap answers another stop by `continue`."""
        if event == "stopped" and self.stands:
            sys.exit(f"it stops where it stood: {body}")
        if event in ("stopped", "continued"):
            self.stands = event == "stopped"

    def write(self, request):
        self.schema.check(request)
        self.stands &= request["command"] not in MOVES
        super().write(request)

    def refused(self, command, **arguments):
        """Why a request is refused."""
        answer = self.response(self.send(command, **arguments))
        if answer["success"]:
            sys.exit(f"{command} is not refused")
        return answer["message"]

    def value(self, expression, frame):
        return self.ask("evaluate", expression=expression, frameId=frame["id"], context="watch")["result"]

    def end(self):
        """Disconnects; the adapter ends by itself."""
        self.ask("disconnect")
        code = self.process.wait(timeout=30)
        if code or self.process.stdout.read():
            sys.exit(f"the adapter ended with {code}")


def line_of(source, text):
    """The number of the first line with a text."""
    with open(source, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if text in line)


def place(frame):
    return f"{frame['name']} at {frame.get('source', {}).get('name')}:{frame['line']}"


def demo(editor, program, source):
    """The demo's bug: recorded until it crashes, then back to who wrote what is wrong."""
    stop = editor.begin("launch", program=program, hunt=5000)
    thread = stop["threadId"]
    print("stopped:", stop["reason"], stop["text"])
    print("why:", editor.ask("exceptionInfo", threadId=thread)["exceptionId"])
    print("threads:", len(editor.ask("threads")["threads"]))
    frames = editor.frames(thread)
    frame = next(one for one in frames if one["name"] == "main")
    with open(source, encoding="utf-8") as file:
        print("in main:", "cache->log->write" in file.read().splitlines()[frame["line"] - 1])
    scopes = {scope["name"]: scope["variablesReference"] for scope in
              editor.ask("scopes", frameId=frame["id"])["scopes"]}
    local = editor.ask("variables", variablesReference=scopes["Locals"])["variables"]
    cache = next(one for one in local if one["name"] == "cache")
    inside = editor.ask("variables", variablesReference=cache["variablesReference"])["variables"]
    print("inside of cache:", ", ".join(one["name"] for one in inside))
    table = next(one for one in inside if one["name"] == "buckets")
    print("buckets:", table["indexedVariables"])
    last = editor.ask("variables", variablesReference=table["variablesReference"], filter="indexed", start=126, count=2)
    print("elements:", [one["name"] for one in last["variables"]])
    data = editor.ask("dataBreakpointInfo", variablesReference=cache["variablesReference"], name="log")
    asked = [{"dataId": data["dataId"], "accessType": "write"}]
    print("watched:", editor.ask("setDataBreakpoints", breakpoints=asked)["breakpoints"][0]["verified"])
    stop = editor.move("reverseContinue", threadId=thread)
    frame = editor.frames(stop["threadId"])[0]
    print("back:", stop["reason"], place(frame), frame["line"] == line_of(source, "buckets[bucket] = session"))
    print("bucket:", editor.value("bucket", frame), "of",
          editor.value("sizeof(cache->buckets) / sizeof(cache->buckets[0])", frame))
    editor.ask("setDataBreakpoints", breakpoints=[])
    steps(editor, stop["threadId"], source)
    editor.end()


def steps(editor, thread, source):
    """Back and on by lines, to lines, and commands of ours."""
    # First to where the line begins, as gdb does.
    editor.move("stepBack", threadId=thread)
    stop = editor.move("stepBack", threadId=thread)
    frame = editor.frames(stop["threadId"])[0]
    print("stepBack:", stop["reason"], frame["line"] == line_of(source, "session->next ="))
    when = editor.ask("evaluate", expression="when", context="repl")["result"]
    print("position:", when.count("+"), "+")
    line = line_of(source, "cache->log = &log")
    targets = editor.ask("gotoTargets", source={"path": source}, line=line)["targets"]
    stop = editor.move("goto", threadId=thread, targetId=targets[0]["id"])
    frame = editor.frames(thread)[0]
    print("goto:", stop["reason"], frame["name"], frame["line"] == line)
    changes(editor, thread)
    editor.ask("evaluate", expression=f"seek {when}", context="repl")
    stop = editor.event("stopped")
    print("seek:", stop["reason"], place(editor.frames(thread)[0]).split(":")[0])
    wanted = [{"line": line_of(source, "uint64_t bucket ="), "condition": "session->number != 0"}]
    found = editor.ask("setBreakpoints", source={"path": source}, breakpoints=wanted)["breakpoints"][0]
    print("breakpoint:", found["verified"], found["line"] == wanted[0]["line"])
    stop = editor.move("reverseContinue", threadId=thread)
    print("hit:", stop["reason"], stop["hitBreakpointIds"] == [found["id"]])
    stop = editor.move("stepOut", threadId=thread)
    print("out:", editor.frames(thread)[0]["name"])
    editor.ask("setBreakpoints", source={"path": source}, breakpoints=[])
    asked = [{"name": "add", "condition": "cache->buckets[0] == cache"}, {"name": "nowhere"}]
    answers = editor.ask("setFunctionBreakpoints", breakpoints=asked)["breakpoints"]
    print("functions:", [one["verified"] for one in answers])
    stop = editor.move("reverseContinue", threadId=thread)
    print("begin:", stop["text"])
    refused(editor, thread)
    frame = editor.frames(thread)[0]
    code = editor.ask("disassemble", memoryReference=frame["instructionPointerReference"], instructionCount=4)
    print("code:", len(code["instructions"]))
    stop = editor.move("continue", threadId=thread)
    print("end:", stop["reason"], stop["text"])


def changes(editor, thread):
    """What was recorded keeps its values; a copy takes others."""
    def set_cache(ask, value):
        frame = editor.frames(thread)[0]
        scopes = editor.ask("scopes", frameId=frame["id"])["scopes"]
        reference = next(one["variablesReference"] for one in scopes if one["name"] == "Locals")
        return ask("setVariable", variablesReference=reference, name="cache", value=value)

    print("changed:", "`branch`" in set_cache(editor.refused, "0"))
    editor.ask("evaluate", expression="branch", context="repl")
    print("changed in a branch:", set_cache(editor.ask, "0")["value"])
    frame = editor.frames(thread)[0]
    print("and by expression:", editor.ask("setExpression", expression="cache", value="(void *) 16",
                                           frameId=frame["id"])["value"].split()[-1])


def refused(editor, thread):
    """What makes no sense is refused, and changes nothing."""
    for command, arguments in [
            ("stackTrace", {"threadId": 4711}),
            ("scopes", {"frameId": 999999}),
            ("goto", {"threadId": thread, "targetId": 1}),
            ("evaluate", {"expression": "no_such_name"}),
            ("evaluate", {"expression": "quit", "context": "repl"}),
            ("evaluate", {"expression": "no-such-command", "context": "repl"}),
            ("launch", {}),
            ("restartFrame", {"frameId": 1}),
    ]:
        if not editor.refused(command, **arguments):
            sys.exit(f"{command} is refused without a word")
    print("refused")


def pause(editor, program, source):
    """A live program that runs on until it is told to stand; a breakpoint is set while it runs."""
    about = editor.ask("initialize", adapterID="retrovane", linesStartAt1=True)
    if not about["supportsStepBack"]:
        sys.exit("it cannot go back")
    editor.ask("launch", program=program, live=True)
    editor.event("initialized")
    editor.ask("configurationDone")
    asked = editor.send("pause", threadId=1)
    thread = editor.event("stopped")
    editor.response(asked)
    print("paused:", thread["reason"])
    editor.ask("continue", threadId=thread["threadId"])
    found = editor.ask("setFunctionBreakpoints", breakpoints=[{"name": "step"}])["breakpoints"]
    print("set meanwhile:", found[0]["verified"])
    stop = editor.event("stopped")
    print("hit:", stop["reason"], editor.frames(stop["threadId"])[0]["name"])
    stop = editor.move("stepBack", threadId=stop["threadId"])
    print("back:", stop["reason"])
    editor.end()
    print("gone:", not processes_of(program))


def attached(editor, program, source):
    """A program that runs already; it goes on when the editor leaves."""
    running = subprocess.Popen([program])
    try:
        editor.ask("initialize", adapterID="retrovane", linesStartAt1=True)
        editor.ask("attach", processId=running.pid, stopOnEntry=True)
        editor.event("initialized")
        editor.ask("setFunctionBreakpoints", breakpoints=[{"name": "step"}])
        editor.ask("configurationDone")
        stop = editor.event("stopped")
        print("attached:", [frame["name"] for frame in editor.frames(stop["threadId"])][-1])
        for way in ("continue", "continue", "reverseContinue"):
            stop = editor.move(way, threadId=stop["threadId"])
            print(way + ":", editor.frames(stop["threadId"])[0]["name"])
        editor.end()
        before = cpu_of(running.pid)
        while cpu_of(running.pid) < before + 10:
            os.sched_yield()
        print("goes on:", running.poll() is None)
    finally:
        running.kill()
        running.wait()


def exceptions(editor, program, source):
    """What C++ throws stops it, also backwards."""
    editor.begin("launch", program=program, at="crash",
                 configure=lambda: editor.ask("setExceptionBreakpoints", filters=["throw"]))
    thread = editor.ask("threads")["threads"][0]["id"]
    print("crash:", any(one["name"].startswith("pay") for one in editor.frames(thread)))
    stop = editor.move("reverseContinue", threadId=thread)
    print("thrown:", stop["reason"], stop["text"])
    print("why:", editor.ask("exceptionInfo", threadId=thread)["exceptionId"])
    frame = next(one for one in editor.frames(thread) if one["name"].startswith("pay"))
    print("in pay:", frame["line"] == line_of(source, "accounts.at(who)"))
    print("before:", editor.move("reverseContinue", threadId=thread)["reason"])
    editor.ask("setExceptionBreakpoints", filters=[])
    print("begin:", editor.move("reverseContinue", threadId=thread)["text"])
    editor.end()


def cpu_of(pid):
    """Ticks that a process has computed for."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return int(file.read().rsplit(") ", 1)[1].split()[11])


def gives_up(editor, program, source):
    """A program that is recorded and does not end: the editor leaves."""
    editor.ask("initialize", adapterID="retrovane", linesStartAt1=True)
    editor.send("launch", program=program)
    while not processes_of(program):
        # Nothing comes from the adapter meanwhile that would say so.
        os.sched_yield()
    editor.end()
    print("gone:", not processes_of(program))


def processes_of(program):
    """The processes of a program."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if words[0] == program.encode():
            found.append(int(name))
    return found


def bad(editor, *_):
    """Configurations that cannot be opened."""
    editor.ask("initialize", adapterID="retrovane")
    print(editor.refused("threads"))
    print(editor.refused("attach", trace="/no/such/trace"))
    print(editor.refused("launch", program="/no/such/program").splitlines()[0])
    print(editor.refused("launch", program="/bin/true", trace="x"))
    editor.end()


SCENARIOS = {"demo": demo, "pause": pause, "attached": attached, "bad": bad, "gives_up": gives_up,
             "exceptions": exceptions}
rest = sys.argv[3:]
split = rest.index("--")
SCENARIOS[sys.argv[2]](Editor(Schema(sys.argv[1]), rest[:split]), *rest[split + 1:])
