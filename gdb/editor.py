"""Answers an editor's requests inside of gdb: what `retrovane dap` hands on.

Runs behind retrovane.py, whose commands go backwards. Requests of the Debug Adapter Protocol come as
one JSON object a line over a private Unix socket; responses and events go back the same way.
Starting, ending and the framing of messages are the command's. An id of a frame or of variables means
something until the program moves.
"""

import base64
import itertools
import json
import os
import re
import select
import signal
import socket

import gdb

FRAMES_MAX = 1000
CHILDREN_MAX = 1000
VALUE_CHARS_MAX = 1000
# What the REPL takes for a command before it looks for a variable of this name.
OWN_COMMANDS = {"when", "seek", "mark", "checkpoint", "rollback", "discard", "live", "branch", "keyframe", "timeline",
                "autocheckpoint", "log", "last-write", "who", "info", "retrovane", "monitor"}
# Commands that would lead gdb away from the recording.
NOT_HERE = re.compile(r"\s*(q|quit|exit|kill|k|detach|disconnect|run|r|start|starti|target|attach)\b")


class Refused(Exception):
    """What the request asks makes no sense here."""


class Ended(Exception):
    """The editor is gone."""


class Connection:
    """The socket. Lines that came while the program ran are kept in their order."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(path)
        self.bytes = b""

    def send(self, message):
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def event(self, name, **body):
        self.send({"type": "event", "event": name, "body": body})

    def say(self, text, category="console"):
        if text:
            self.event("output", category=category, output=text if text.endswith("\n") else text + "\n")

    def is_waiting(self):
        """True if a request is there."""
        return b"\n" in self.bytes or bool(select.select([self.socket], [], [], 0)[0])

    def receive(self):
        while b"\n" not in self.bytes:
            more = self.socket.recv(1 << 16)
            if not more:
                raise Ended
            self.bytes += more
        line, self.bytes = self.bytes.split(b"\n", 1)
        return json.loads(line)


class OwnWords:
    """What gdb writes by itself, since it was looked at last."""

    def __init__(self, path):
        self.file = open(path, "r", encoding="utf-8", errors="replace")

    def new(self):
        gdb.flush()
        return self.file.read()


class Handles:
    """What ids mean, until the program moves. No id is used again."""

    def __init__(self):
        self.next = 1
        self.known = {}

    def new(self, thing):
        number, self.next = self.next, self.next + 1
        self.known[number] = thing
        return number

    def get(self, number, kind):
        thing = self.known.get(number)
        if not isinstance(thing, kind):
            raise Refused("that was at another position: the program has moved since")
        return thing

    def forget(self):
        self.known.clear()


class Place:
    """A frame: its thread, and how many are in front of it."""

    def __init__(self, thread, level):
        self.thread, self.level = thread, level

    def select(self):
        choose(self.thread)
        frame = gdb.newest_frame()
        for _ in range(self.level):
            frame = frame.older()
            if frame is None:
                raise Refused("there is no such frame")
        frame.select()
        return frame


class Container:
    """What has variables inside: gives (name, value or text, expression) for each."""

    def __init__(self, place, children, count=None):
        self.place, self.children, self.count = place, children, count


connection = Connection(os.environ["RETROVANE_EDITOR"])
handles = Handles()


def choose(number):
    """Makes a thread the selected one."""
    for thread in gdb.selected_inferior().threads():
        if thread.num == number:
            if thread != gdb.selected_thread():
                thread.switch()
            return
    raise Refused(f"there is no thread {number} at this position")


def needed(arguments, name, kind):
    value = arguments.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise Refused(f"`{name}` is missing")
    return value


# Stops


class Stopped:
    """What the events of gdb say of a movement."""

    def __enter__(self):
        self.event, self.is_gone, self.code, self.hit, self.is_caught = None, False, None, [], False
        gdb.events.stop.connect(self.note)
        gdb.events.exited.connect(self.note_end)
        return self

    def __exit__(self, *_):
        gdb.events.stop.disconnect(self.note)
        gdb.events.exited.disconnect(self.note_end)

    def note(self, event):
        self.event = event
        # Some of them may be gone once the movement is done.
        at = event.breakpoints if isinstance(event, gdb.BreakpointEvent) else []
        self.is_caught = any(one.type == gdb.BP_CATCHPOINT for one in at)
        numbers = [one.number for one in at]
        self.hit = [breakpoints.ids[number] for number in numbers if number in breakpoints.ids]

    def note_end(self, event):
        self.is_gone, self.code = True, getattr(event, "exit_code", None)

    def is_interrupted(self):
        return isinstance(self.event, gdb.SignalEvent) and self.event.stop_signal == "SIGINT"

    def body(self, said, otherwise):
        """The event for the editor."""
        if self.hit:
            kinds = {one.kind for one in self.hit}
            reason = next(iter(kinds)) if len(kinds) == 1 else "breakpoint"
            body = {"reason": reason, "hitBreakpointIds": [one.id for one in self.hit]}
            changed = [one for one in self.hit if one.kind == "data breakpoint"]
            if changed:
                body["text"] = f"{changed[0].name} is written here"
            return body
        if self.is_caught:
            return {"reason": "exception", "description": "Paused on an exception", "text": CXX_EXCEPTION}
        if self.is_interrupted():
            return {"reason": "pause"}
        if isinstance(self.event, gdb.SignalEvent) and self.event.stop_signal != "0":
            return exception_body(self.event.stop_signal)
        ends = re.search(r"\[(?:The|Signal|Recording) .*\]", said)
        if ends:
            return {"reason": "pause", "description": "Paused where history ends", "text": ends.group(0)[1:-1]}
        if "No more reverse-execution history" in said:
            return {"reason": "pause", "description": "Paused where history begins or ends",
                    "text": "history goes no further"}
        return {"reason": otherwise}


CXX_EXCEPTION = "C++ exception"


def exception_body(name):
    try:
        text = signal.strsignal(signal.Signals[name].value)
    except (KeyError, ValueError):
        text = name
    return {"reason": "exception", "description": f"Paused on {name}", "text": f"{name}: {text}"}


def stopped_body(body):
    thread = gdb.selected_thread()
    if thread is not None:
        body["threadId"] = thread.num
    body["allThreadsStopped"] = True
    body.setdefault("description", f"Paused on {body['reason']}")
    return body


class Motion:
    """A movement: done behind the response, told as an event."""

    def __init__(self, commands, reason, goes_on=False, thread=None):
        self.commands, self.reason, self.goes_on, self.thread = commands, reason, goes_on, thread

    def run(self):
        handles.forget()
        if self.reason == "goto" and gdb.selected_thread() is not None:
            # Who is not told that it moves takes the stop for that of another thread, and nvim-dap lets that one go on.
            connection.event("continued", threadId=gdb.selected_thread().num, allThreadsContinued=True)
        if self.thread is not None:
            choose(self.thread)
        is_interrupted = goes_on = True
        while is_interrupted and goes_on:
            said, is_interrupted = "", False
            with Stopped() as stopped:
                # From here on an interrupt is wanted, and until it stands.
                connection.send({"type": "moves"})
                try:
                    said = "".join(command() for command in self.commands)
                except KeyboardInterrupt:
                    is_interrupted = True
                connection.send({"type": "stands"})
                # What is told at a stop goes to gdb's own output, whatever a command's text goes to.
                said += own_words.new()
            is_interrupted |= stopped.is_interrupted()
            goes_on = is_interrupted and serve_meanwhile() and self.goes_on
        tell(said)
        if stopped.is_gone or gdb.selected_inferior().pid == 0:
            connection.event("exited", exitCode=stopped.code or 0)
            connection.event("terminated")
            return
        breakpoints.tell_resolved()
        connection.event("stopped", **stopped_body(stopped.body(said, self.reason)))


def tell(said):
    """What of gdb's text is for the user."""
    lines = [line for line in said.splitlines() if line.startswith(("retrovane: ", "[The ", "[Signal", "[Recording"))]
    connection.say("\n".join(lines))


def serve_meanwhile():
    """The program was interrupted: answers what has come. True if it is to go on."""
    goes_on = False
    while connection.is_waiting():
        request = connection.receive()
        if request.get("command") == "pause":
            respond(request, {})
            return False
        answer(request, is_running=True)
        goes_on = True
    return goes_on


def gdb_command(text):
    return lambda: gdb.execute(text, to_string=True)


def thread_of(arguments):
    return needed(arguments, "threadId", int)


def by_step(by_line, by_instruction):
    def request(arguments):
        command = by_instruction if arguments.get("granularity") == "instruction" else by_line
        return {}, Motion([gdb_command(command)], "step", thread=thread_of(arguments))
    return request


def go_on(_):
    return {"allThreadsContinued": True}, Motion([gdb_command("continue")], "pause", goes_on=True)


def go_back(_):
    return {}, Motion([gdb_command("reverse-continue")], "pause", goes_on=True)


def pause(_):
    # It stopped by itself just before.
    return {}


def begin(arguments):
    """`configurationDone`: either shows where it stands, or goes on from there."""
    global is_begun
    if is_begun:
        return {}
    is_begun = True
    if not begins_at_entry:
        return {}, Motion([gdb_command("continue")], "pause", goes_on=True)
    return {}, Motion([show_beginning], "entry")


def show_beginning():
    number = ask("death")
    if number:
        name = signal.Signals(int(number)).name
        connection.say(f"{name} kills the program here; history ends")
    return ""


# Threads, frames, variables


def threads(_):
    found = sorted(gdb.selected_inferior().threads(), key=lambda thread: thread.num)
    named = [{"id": one.num, "name": f"{one.name or 'thread'} ({one.ptid[1] or one.ptid[0]})"} for one in found]
    return {"threads": named}


def source_of(table):
    path = table.fullname()
    source = {"name": os.path.basename(table.filename), "path": path}
    if not os.path.exists(path):
        source["presentationHint"] = "deemphasize"
        source["origin"] = "not on this machine"
    return source


def stack_trace(arguments):
    number = thread_of(arguments)
    choose(number)
    first, most = arguments.get("startFrame") or 0, arguments.get("levels") or FRAMES_MAX
    frame, level, shown = gdb.newest_frame(), 0, []
    while frame is not None and level < min(first + most, FRAMES_MAX):
        if level >= first:
            shown.append(described(frame, number, level))
        level += 1
        try:
            frame = frame.older()
        except gdb.error:
            frame = None
    body = {"stackFrames": shown}
    # Unless all were looked at, the editor asks for the rest when it is wanted.
    body["totalFrames"] = level if frame is None or level >= FRAMES_MAX else level + 1
    return body


def described(frame, thread, level):
    about = {"id": handles.new(Place(thread, level)), "name": frame.name() or f"{frame.pc():#x}", "line": 0, "column": 0,
             "instructionPointerReference": f"{frame.pc():#x}"}
    place = frame.find_sal()
    if place.symtab is not None and place.line:
        about["line"], about["source"] = place.line, source_of(place.symtab)
    else:
        about["presentationHint"] = "subtle"
    return about


def scopes(arguments):
    place = handles.get(needed(arguments, "frameId", int), Place)
    frame = place.select()
    named = [("Arguments", "arguments", lambda symbol: symbol.is_argument),
             ("Locals", "locals", lambda symbol: symbol.is_variable and not symbol.is_argument)]
    found = []
    for title, hint, wanted in named:
        symbols = symbols_of(frame, wanted)
        if symbols:
            inside = Container(place, lambda symbols=symbols: values_of(place, symbols))
            found.append({"name": title, "presentationHint": hint, "variablesReference": handles.new(inside),
                          "namedVariables": len(symbols), "expensive": False})
    registers = Container(place, lambda: registers_of(place))
    found.append({"name": "Registers", "presentationHint": "registers", "variablesReference": handles.new(registers),
                  "expensive": True})
    recording = Container(place, recorded)
    found.append({"name": "Recording", "variablesReference": handles.new(recording), "expensive": True})
    return {"scopes": found}


def symbols_of(frame, wanted):
    """The innermost one of each name."""
    try:
        block = frame.block()
    except RuntimeError:
        return []
    found = {}
    while block is not None:
        for symbol in block:
            if wanted(symbol):
                found.setdefault(symbol.name, symbol)
        if block.function is not None:
            break
        block = block.superblock
    return list(found.values())


def values_of(place, symbols):
    frame = place.select()
    for symbol in symbols:
        try:
            yield symbol.name, symbol.value(frame), symbol.name
        except (gdb.error, TypeError) as error:
            yield symbol.name, f"<{error}>", None


def registers_of(place):
    frame = place.select()
    for register in frame.architecture().registers("general"):
        yield register.name, frame.read_register(register), f"${register.name}"


def recorded():
    yield "position", when(), None
    yield "process", str(gdb.selected_inferior().pid), None


def shown(value, is_hex=False):
    try:
        options = {"max_elements": 64, "repeat_threshold": 8, "max_depth": 2}
        text = value.format_string(format="x", **options) if is_hex else value.format_string(**options)
    except gdb.error as error:
        text = f"<{error}>"
    return text if len(text) <= VALUE_CHARS_MAX else text[:VALUE_CHARS_MAX] + "..."


def variables(arguments):
    inside = handles.get(needed(arguments, "variablesReference", int), Container)
    inside.place.select()
    first, most = arguments.get("start") or 0, arguments.get("count") or CHILDREN_MAX
    most = min(most, CHILDREN_MAX)
    is_hex = (arguments.get("format") or {}).get("hex", False)
    found = itertools.islice(inside.children(), first, first + most)
    return {"variables": [variable(name, value, expression, inside.place, is_hex) for name, value, expression in found]}


def variable(name, value, expression, place, is_hex=False):
    about = {"name": str(name), "variablesReference": 0}
    if not isinstance(value, gdb.Value):
        about["value"] = str(value)
        return about
    about["value"], about["type"] = shown(value, is_hex), str(value.type)[:200]
    if expression:
        about["evaluateName"] = expression
    try:
        children, count = inside_of(value, expression)
    except (gdb.error, RuntimeError):
        return about
    if children is not None:
        about["variablesReference"] = handles.new(Container(place, children, count))
        if count is not None:
            about["indexedVariables"] = count
    if value.type.strip_typedefs().code == gdb.TYPE_CODE_PTR:
        about["memoryReference"] = f"{int(value):#x}"
    return about


def inside_of(value, expression):
    """What gives the children of a value, and how many elements it has if it is an array."""
    printer = gdb.default_visualizer(value)
    if printer is not None:
        if not hasattr(printer, "children"):
            return None, None
        return (lambda: ((name, as_value(child), None) for name, child in printer.children())), None
    kind = value.type.strip_typedefs()
    if kind.code in (gdb.TYPE_CODE_REF, getattr(gdb, "TYPE_CODE_RVALUE_REF", gdb.TYPE_CODE_REF)):
        return inside_of(value.referenced_value(), expression)
    if kind.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
        return (lambda: members(value, kind, expression and f"({expression})")), None
    if kind.code == gdb.TYPE_CODE_ARRAY:
        low, high = kind.range()
        return (lambda: ((f"[{index}]", value[index], expression and f"({expression})[{index}]")
                         for index in range(low, high + 1))), max(0, high - low + 1)
    if kind.code == gdb.TYPE_CODE_PTR:
        to = kind.target().strip_typedefs()
        if to.code in (gdb.TYPE_CODE_VOID, gdb.TYPE_CODE_FUNC) or int(value) == 0:
            return None, None
        if to.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
            return inside_of(value.dereference(), expression and f"*({expression})")
        return (lambda: iter([("*", value.dereference(), expression and f"*({expression})")])), None
    return None, None


def as_value(child):
    return child if isinstance(child, (gdb.Value, str)) else gdb.Value(child)


def members(value, kind, expression):
    for field in kind.fields():
        if not hasattr(field, "bitpos") and not field.is_base_class:
            continue
        if field.is_base_class:
            yield f"<{field.name}>", value[field], None
        elif field.name:
            yield field.name, value[field], expression and f"{expression}.{field.name}"
        else:
            yield "<unnamed>", value[field], expression


def evaluate(arguments):
    text = needed(arguments, "expression", str).strip()
    number, context = arguments.get("frameId"), arguments.get("context")
    place = handles.get(number, Place) if number is not None else None
    if place is not None:
        place.select()
    elif gdb.selected_thread() is not None:
        place = Place(gdb.selected_thread().num, 0)
    if context == "repl" and not is_expression(text):
        return command(text)
    try:
        value = gdb.parse_and_eval(text)
        is_hex = (arguments.get("format") or {}).get("hex", False)
        about = variable(text, value, text, place, is_hex)
    finally:
        calls.done()
    body = {"result": about["value"], "type": about["type"], "variablesReference": about["variablesReference"]}
    for name in ("indexedVariables", "memoryReference"):
        if name in about:
            body[name] = about[name]
    return body


def is_expression(text):
    """Whether the REPL takes a line for an expression: our commands go before, all others behind."""
    words = text.split()
    if not words or text.startswith("-exec ") or words[0] in OWN_COMMANDS:
        return False
    try:
        gdb.parse_and_eval(text)
    except (gdb.error, RuntimeError):
        return False
    return True


def command(text):
    """A command of gdb's, or of ours. If it moves the program, the editor is told."""
    text = text[len("-exec "):] if text.startswith("-exec ") else text
    if NOT_HERE.match(text):
        raise Refused("that would end this session: the editor's own buttons do that")
    body = {"variablesReference": 0}
    with Moves() as moves:
        try:
            own_words.new()
            text = gdb.execute(text, to_string=True)
            body["result"] = (text + own_words.new()).rstrip("\n")
        finally:
            calls.done()
    if not moves.were_any:
        return body
    handles.forget()
    return body, Motion([lambda: ""], "goto")


class Moves:
    """Whether the program moves meanwhile."""

    def __enter__(self):
        self.were_any = False
        gdb.events.stop.connect(self.note)
        return self

    def __exit__(self, *_):
        gdb.events.stop.disconnect(self.note)

    def note(self, _):
        self.were_any = True


# Breakpoints


class Logged(gdb.Breakpoint):
    """A breakpoint that says something instead of stopping."""

    def log(self, message, condition):
        self.message, self.only_if = message, condition

    def stop(self):
        try:
            if self.only_if and not gdb.parse_and_eval(self.only_if):
                return False
            connection.say(re.sub(r"\{([^{}]+)\}", lambda found: shown(gdb.parse_and_eval(found[1])), self.message))
        except gdb.error as error:
            connection.say(f"{self.message}: {error}", "important")
        return False


class Known:
    """A breakpoint of the editor's, and the one of gdb's that stands for it."""

    def __init__(self, number, kind, name):
        self.id, self.kind, self.name = number, kind, name
        self.breakpoint, self.problem = None, None

    def is_resolved(self):
        return self.breakpoint is not None and not self.breakpoint.pending

    def described(self):
        about = {"id": self.id, "verified": self.is_resolved()}
        if self.problem:
            about["message"] = self.problem
        elif not about["verified"]:
            about["message"] = "not in what is loaded here; it may be later"
        for location in getattr(self.breakpoint, "locations", None) or []:
            if location.source:
                about["line"], about["source"] = location.source[1], {"path": location.fullname,
                                                                      "name": os.path.basename(location.fullname)}
                break
        return about


class Breakpoints:
    """All breakpoints of the editor's, which it sets anew by source, or by kind."""

    def __init__(self):
        self.next = 1
        # By what the editor sets together, and by the number in gdb.
        self.sets, self.ids, self.unresolved = {}, {}, set()

    def set(self, key, kind, wanted, make):
        for old in self.sets.pop(key, []):
            if old.breakpoint is not None and old.breakpoint.is_valid():
                self.ids.pop(old.breakpoint.number, None)
                old.breakpoint.delete()
            self.unresolved.discard(old)
        made = self.sets[key] = []
        for one in wanted:
            known = Known(self.next, kind, name_of(one))
            self.next += 1
            try:
                known.breakpoint = make(one)
                self.adjust(known.breakpoint, one)
                self.ids[known.breakpoint.number] = known
                if known.breakpoint.pending:
                    self.unresolved.add(known)
            except (gdb.error, RuntimeError, Refused, ValueError) as error:
                known.problem = str(error)
                if known.breakpoint is not None:
                    known.breakpoint.delete()
                    known.breakpoint = None
            made.append(known)
        return {"breakpoints": [known.described() for known in made]}

    @staticmethod
    def adjust(breakpoint, wanted):
        breakpoint.silent = True
        if isinstance(breakpoint, Logged):
            breakpoint.log(wanted["logMessage"], wanted.get("condition"))
        elif wanted.get("condition"):
            breakpoint.condition = wanted["condition"]
        if wanted.get("hitCondition"):
            breakpoint.ignore_count = max(0, int(wanted["hitCondition"]) - 1)

    def tell_resolved(self):
        """Says which are in what has been loaded since."""
        for known in [one for one in self.unresolved if one.is_resolved()]:
            self.unresolved.discard(known)
            connection.event("breakpoint", reason="changed", breakpoint=known.described())


breakpoints = Breakpoints()


def name_of(wanted):
    return wanted.get("name") or wanted.get("dataId", "").rsplit("|", 1)[-1]


def kind_of(wanted):
    return Logged if wanted.get("logMessage") else gdb.Breakpoint


def set_breakpoints(arguments):
    path = needed(arguments.get("source") or {}, "path", str)
    wanted = arguments.get("breakpoints") or []

    def make(one):
        return kind_of(one)(source=path, line=str(needed(one, "line", int)))
    return breakpoints.set(("source", path), "breakpoint", wanted, make)


def set_function_breakpoints(arguments):
    def make(one):
        return kind_of(one)(function=needed(one, "name", str))
    return breakpoints.set("function", "function breakpoint", arguments.get("breakpoints") or [], make)


def set_instruction_breakpoints(arguments):
    def make(one):
        address = int(needed(one, "instructionReference", str), 16) + (one.get("offset") or 0)
        return kind_of(one)(f"*{address:#x}")
    return breakpoints.set("instruction", "instruction breakpoint", arguments.get("breakpoints") or [], make)


def set_variable(arguments):
    """Changes a variable that was shown: of a live program, or of a copy that `branch` made."""
    inside = handles.get(needed(arguments, "variablesReference", int), Container)
    name, text = needed(arguments, "name", str), needed(arguments, "value", str)
    inside.place.select()
    found = next(((value, expression) for child, value, expression in inside.children() if str(child) == name), None)
    if found is None or not isinstance(found[0], gdb.Value):
        raise Refused(f"{name} is no variable of the program")
    value, expression = found
    if expression is None and value.address is None:
        raise Refused(f"{name} is nowhere in memory")
    return changed(expression or f"*({value.type} *) {int(value.address):#x}", text, arguments, inside.place)


def set_expression(arguments):
    """Changes what an expression stands for."""
    number = arguments.get("frameId")
    place = handles.get(number, Place) if number is not None else Place(gdb.selected_thread().num, 0)
    place.select()
    return changed(needed(arguments, "expression", str), needed(arguments, "value", str), arguments, place)


def changed(expression, text, arguments, place):
    """Assigns, and says what it has become."""
    try:
        gdb.parse_and_eval(f"({expression}) = ({text})")
    except gdb.MemoryError as error:
        raise Refused("what was recorded cannot be changed: `branch` in the debug console goes on in a copy, "
                      "whose variables can") from error
    finally:
        calls.done()
    is_hex = (arguments.get("format") or {}).get("hex", False)
    about = variable(expression, gdb.parse_and_eval(expression), expression, place, is_hex)
    return {key: about[key] for key in ("value", "type", "variablesReference", "indexedVariables") if key in about}


def data_breakpoint_info(arguments):
    """A place in memory: what it holds is watched wherever the program stands."""
    name, reference = needed(arguments, "name", str), arguments.get("variablesReference")
    if reference:
        inside = handles.get(reference, Container)
        value = next((value for child, value, _ in inside.children() if str(child) == name), None)
    else:
        number = arguments.get("frameId")
        if number is not None:
            handles.get(number, Place).select()
        value = gdb.parse_and_eval(name)
    if not isinstance(value, gdb.Value) or value.address is None:
        return {"dataId": None, "description": f"{name} is nowhere in memory"}
    place = f"{int(value.address):#x}|{value.type.sizeof}|{name}"
    return {"dataId": place, "description": f"{name}, {value.type.sizeof} bytes at {int(value.address):#x}",
            "accessTypes": ["read", "write", "readWrite"], "canPersist": False}


ACCESSES = {"read": gdb.WP_READ, "write": gdb.WP_WRITE, "readWrite": gdb.WP_ACCESS}


def set_data_breakpoints(arguments):
    def make(one):
        address, size, _ = needed(one, "dataId", str).split("|", 2)
        with Language("c"):
            return gdb.Breakpoint(watched_place(int(address, 16), int(size)), gdb.BP_WATCHPOINT,
                                  ACCESSES.get(one.get("accessType"), gdb.WP_WRITE))
    return breakpoints.set("data", "data breakpoint", arguments.get("breakpoints") or [], make)


def set_exception_breakpoints(arguments):
    """`throw` and `catch` of C++."""
    for one in map(thrown.present, exceptions):
        if one.is_valid():
            one.delete()
    exceptions.clear()
    answers = []
    for kind in arguments.get("filters") or []:
        if kind not in ("throw", "catch"):
            answers.append({"verified": False, "message": f"there is no filter {kind}"})
            continue
        gdb.execute(f"catch {kind}", to_string=True)
        exceptions.append(gdb.breakpoints()[-1])
        answers.append({"verified": True})
    return {"breakpoints": answers}


# Positions


def goto_targets(arguments):
    """A line, each way; and the positions that have names."""
    path = needed(arguments.get("source") or {}, "path", str)
    line = needed(arguments, "line", int)
    name = f"{os.path.basename(path)}:{line}"

    def target(label, motion):
        return {"id": handles.new(motion), "label": label, "line": line}
    targets = [target(f"back to {name}", Motion([lambda: run_to(path, line, "reverse-continue")], "goto")),
               target(f"on to {name}", Motion([lambda: run_to(path, line, "continue")], "goto")),
               target("begin of the recording", Motion([lambda: seek("begin")], "goto")),
               target("end of the recording", Motion([lambda: seek("end")], "goto"))]
    for mark in ask("marks").splitlines():
        name, _, position = mark.partition("\t")
        targets.append(target(f"{name} ({position})", Motion([lambda name=name: seek(name)], "goto")))
    return {"targets": targets}


def goto(arguments):
    motion = handles.get(needed(arguments, "targetId", int), Motion)
    return {}, motion


def run_to(path, line, way):
    """To the nearest execution of a line; the position stays where there is none."""
    here = when()
    with BreakpointsOff():
        stop = gdb.Breakpoint(source=path, line=str(line), internal=True)
        try:
            stop.silent = True
            before = stop.hit_count
            ask("signals ignored")
            try:
                said = gdb.execute(way, to_string=True)
            finally:
                ask("signals told")
            is_there = stop.hit_count > before
        finally:
            stop.delete()
    if not is_there:
        seek(here)
        connection.say(f"{os.path.basename(path)}:{line} is not executed {'before' if 'reverse' in way else 'behind'} "
                       f"{here}", "important")
    return said


def exception_info(_):
    number = ask("death")
    if not number and (gdb.newest_frame().name() or "").startswith("__cxa_"):
        return {"exceptionId": CXX_EXCEPTION, "breakMode": "always"}
    if not number:
        raise Refused("the program does not die here")
    name = signal.Signals(int(number)).name
    return {"exceptionId": name, "description": signal.strsignal(int(number)), "breakMode": "unhandled"}


# Memory and code


def read_memory(arguments):
    address = int(needed(arguments, "memoryReference", str), 16) + (arguments.get("offset") or 0)
    count = min(needed(arguments, "count", int), 1 << 16)
    inferior, found = gdb.selected_inferior(), b""
    while len(found) < count:
        # Memory ends with a page.
        size = min(count - len(found), 4096 - (address + len(found)) % 4096)
        try:
            found += bytes(inferior.read_memory(address + len(found), size))
        except gdb.MemoryError:
            break
    return {"address": f"{address:#x}", "data": base64.b64encode(found).decode(), "unreadableBytes": count - len(found)}


def disassemble(arguments):
    address = int(needed(arguments, "memoryReference", str), 16) + (arguments.get("offset") or 0)
    before, count = arguments.get("instructionOffset") or 0, min(needed(arguments, "instructionCount", int), 1000)
    architecture, listed = gdb.selected_frame().architecture(), []
    if before < 0:
        # Instructions have no fixed length: from the beginning of the function on, if there is one.
        block = gdb.block_for_pc(address)
        if block is not None:
            begin_at = block.start
            listed = [one for one in architecture.disassemble(begin_at, address) if one["addr"] < address]
        missing = -before - len(listed)
        listed = listed[before:] if missing <= 0 else [None] * missing + listed
    wanted = max(0, count - len(listed))
    if wanted:
        listed += architecture.disassemble(address, count=max(0, before) + wanted)[max(0, before):]
    return {"instructions": [instruction(one) for one in listed[:count]]}


def instruction(one):
    if one is None:
        return {"address": "0x0", "instruction": "??", "presentationHint": "invalid"}
    return {"address": f"{one['addr']:#x}", "instruction": one["asm"]}


# What is answered while the program is interrupted for it.
IN_PASSING = re.compile("set.*Breakpoints$|threads$")
REQUESTS = {
    "configurationDone": begin, "threads": threads, "stackTrace": stack_trace, "scopes": scopes,
    "variables": variables, "evaluate": evaluate, "setBreakpoints": set_breakpoints,
    "setFunctionBreakpoints": set_function_breakpoints, "setInstructionBreakpoints": set_instruction_breakpoints,
    "setVariable": set_variable, "setExpression": set_expression,
    "dataBreakpointInfo": data_breakpoint_info, "setDataBreakpoints": set_data_breakpoints,
    "setExceptionBreakpoints": set_exception_breakpoints, "exceptionInfo": exception_info,
    "continue": go_on, "reverseContinue": go_back, "pause": pause,
    "next": by_step("next", "nexti"), "stepIn": by_step("step", "stepi"), "stepOut": by_step("finish", "finish"),
    "stepBack": by_step("reverse-next", "reverse-nexti"),
    "gotoTargets": goto_targets, "goto": goto, "readMemory": read_memory, "disassemble": disassemble,
}


def respond(request, body):
    message = {"type": "response", "request_seq": request["seq"], "command": request["command"], "success": True}
    if body:
        message["body"] = body
    connection.send(message)


def refuse(request, problem):
    connection.send({"type": "response", "request_seq": request["seq"], "command": request["command"],
                     "success": False, "message": problem.splitlines()[0][:200],
                     "body": {"error": {"id": 1, "format": re.sub(r"[{}]", "", problem)[:1000], "showUser": False}}})


def answer(request, is_running=False):
    """Responds to a request; the movement that follows, if any."""
    motion, is_done = None, False
    try:
        handler = REQUESTS.get(request["command"])
        if handler is None:
            raise Refused(f"{request['command']} is not supported")
        if is_running and not IN_PASSING.match(request["command"]):
            raise Refused("the program is running")
        body = handler(request.get("arguments") or {})
        body, motion = body if isinstance(body, tuple) else (body, None)
        is_done = True
        respond(request, body)
    except KeyboardInterrupt:
        # If it is done, the interrupt was for a movement that has just ended.
        if not is_done:
            refuse(request, "given up, as was asked")
    except (Refused, gdb.GdbError, gdb.error, RuntimeError, ValueError, TypeError, KeyError) as error:
        refuse(request, str(error) or type(error).__name__)
    return motion


def move_on(motion):
    """A movement, of which the editor hears in any case where it ended."""
    try:
        motion.run()
        return
    except KeyboardInterrupt:
        body = {"reason": "pause"}
    except (Refused, gdb.GdbError, gdb.error, RuntimeError) as error:
        connection.say(str(error), "important")
        body = {"reason": "pause", "text": str(error)}
    if gdb.selected_inferior().pid == 0:
        connection.event("terminated")
    else:
        connection.event("stopped", **stopped_body(body))


def serve():
    """Until the editor leaves."""
    while True:
        try:
            motion = answer(connection.receive())
            if motion is not None:
                move_on(motion)
        except KeyboardInterrupt:
            # What was to be given up had just ended.
            pass
        except (Ended, OSError):
            return


def prepare():
    """Settings, and where gdb's own words go: what the program writes comes by the descriptors that
    the server has."""
    for setting in ("pagination off", "width 0", "print elements 200", "confirm off"):
        gdb.execute("set " + setting, to_string=True)
    said = os.open(os.environ["RETROVANE_SAID"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in (1, 2):
        os.dup2(said, number)
    os.close(said)
    return OwnWords(os.environ["RETROVANE_SAID"])


begins_at_entry = os.environ.get("RETROVANE_STOPS") == "1"
is_begun = False
exceptions = []
own_words = prepare()
connection.send({"type": "ready", "pid": gdb.selected_inferior().pid})
serve()
