"""Answers the verbs of `retrovane mcp` and `retrovane query` inside of gdb.

Runs behind retrovane.py, whose commands go backwards. Requests come as one JSON object a line over
a private Unix socket, and so do answers. A verb is one of VERBS: nothing that arrives is ever run
as a command of gdb. A request that fails leaves the position where it was.
"""

import json
import os
import re
import socket

import gdb

FRAMES_MAX = 40
WRITES_MAX = 50
VALUE_CHARS_MAX = 400
VARIABLES_MAX = 24
SOURCE_LINES_AROUND = 3
# What a path in debug information may be called to be shown as a source.
SOURCE_ENDS = (".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".inl", ".rs", ".go", ".s", ".S",
               ".py", ".pyx", ".d", ".f90", ".zig", ".swift", ".adb", ".ads", ".pas", ".nim", ".m", ".mm")
# Where languages and libraries have their sources, and what their functions are called.
NOT_OF_PROGRAM = re.compile(r"^/usr/(?:include|lib|share|local/(?:include|lib|go))/|/rustlib/src/|^/rustc/|"
                            r"/\.cargo/(?:registry|git)/|/go/pkg/mod/")
NOT_OF_PROGRAM_BY_NAME = ("runtime.", "std::", "core::", "alloc::")
THREADS_MAX = 64
FRAMES_OF_THREAD = 3


class Refused(Exception):
    """What the request asks is not permitted, or makes no sense."""


TOKEN = re.compile(r"\s*(?:([A-Za-z_]\w*)|(\$\w+)|(\d[\w.]*)|('(?:[^'\\]|\\.)')|(->|::|<<|>>|[<>=!]=|&&|\|\||"
                   r"[-+*/%&|^~!<>()\[\]{}.,?:@]))")
# Convenience variables that only show something; all others might be functions.
VARIABLES = ("$_siginfo", "$_exitcode", "$_thread")


def checked(expression):
    """The expression, if all it does is to read: no calls, assignments or functions of gdb's."""
    if not isinstance(expression, str) or not expression.strip() or len(expression) > 400:
        raise Refused("an expression has 1 to 400 characters")
    at, before = 0, ""
    text = expression.strip()
    while at < len(text):
        found = TOKEN.match(text, at)
        if not found:
            raise Refused(f"an expression may not hold {text[at:at + 8]!r}: it reads values, and neither assigns nor "
                          "calls")
        token = found.group(0).strip()
        if found.group(2) and token not in VARIABLES and not re.fullmatch(r"\$[a-z][a-z0-9]{1,7}", token):
            raise Refused(f"{token} is no register")
        if token == "(" and before not in ("", "sizeof") and re.fullmatch(r"[A-Za-z_]\w*|\$\w+|\]", before):
            raise Refused(f"{before}(...) would be a call: an expression reads values only")
        if (before, token) in (("+", "+"), ("-", "-")) and text[found.end() - 2] == token:
            raise Refused("++ and -- would write")
        at, before = found.end(), token
    return text


def location(text):
    """FILE:LINE or a function's name."""
    if not isinstance(text, str) or not re.fullmatch(r"[\w./+~<>:*-]{1,300}", text) or text.startswith("-"):
        raise Refused("a location is FILE:LINE or a function's name")
    return text


def number(arguments, name, default, most):
    value = arguments.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise Refused(f"{name} is a number from 1 to {most}")
    return value


def shown(value):
    """A value as text, bounded."""
    try:
        text = value.format_string(max_elements=16, repeat_threshold=6, max_depth=3)
    except gdb.error as error:
        text = f"<{error}>"
    return text if len(text) <= VALUE_CHARS_MAX else text[:VALUE_CHARS_MAX] + "..."


def variables(frame, wanted):
    """Names and values of a frame's arguments or locals, the innermost block's first."""
    try:
        block = frame.block()
    except RuntimeError:
        return {}
    values = {}
    while block is not None:
        for symbol in block:
            if wanted(symbol) and symbol.name not in values and len(values) < VARIABLES_MAX:
                try:
                    values[symbol.name] = shown(symbol.value(frame))
                except (gdb.error, TypeError) as error:
                    values[symbol.name] = f"<{error}>"
        if block.function is not None:
            break
        block = block.superblock
    return values


def line_of(frame):
    """Symbol table and line. Go calls what handles a fault as if by the instruction that faulted."""
    newer = frame.newer()
    if newer is not None and newer.name() == "runtime.sigpanic":
        return gdb.find_pc_line(frame.pc())
    return frame.find_sal()


def described(frame, level, with_locals):
    about = {"level": level, "function": frame.name(), "pc": f"{frame.pc():#x}"}
    place = line_of(frame)
    if place.symtab is not None and place.line:
        about["at"] = f"{place.symtab.filename}:{place.line}"
    arguments = variables(frame, lambda symbol: symbol.is_argument)
    if arguments:
        about["arguments"] = arguments
    if with_locals:
        values = variables(frame, lambda symbol: symbol.is_variable and not symbol.is_argument)
        if values:
            about["locals"] = values
    return about


# Sources that were read for the answer at hand.
READ = set()


def source_path(frame):
    """The file of a frame's place, if it is called as sources are."""
    place = line_of(frame)
    if place.symtab is None or not place.line:
        return None
    path = place.symtab.fullname()
    return path if path.endswith(SOURCE_ENDS) else None


def source(frame):
    """The lines around a frame's place, where its source can be read."""
    path = source_path(frame)
    if path is None:
        return None
    place = line_of(frame)
    READ.add(path)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read(4 << 20).split("\n")
    except OSError:
        return None
    first = max(1, place.line - SOURCE_LINES_AROUND)
    last = min(len(lines), place.line + SOURCE_LINES_AROUND)
    mark = {place.line: ">"}
    return [f"{mark.get(line, ' ')}{line:5} {lines[line - 1][:160]}" for line in range(first, last + 1)]


def frames(most):
    frame, found = gdb.newest_frame(), []
    while frame is not None and len(found) < most:
        # Below the first function of a goroutine there is nothing.
        if found and frame.pc() == 0:
            break
        found.append(frame)
        try:
            frame = frame.older()
        except gdb.error:
            break
    return found


def is_of_program(frame):
    """Whether a frame's source can be read, and is none of a language or a library."""
    path = source_path(frame)
    return (path is not None and not NOT_OF_PROGRAM.search(path) and os.access(path, os.R_OK)
            and not (frame.name() or "").startswith(NOT_OF_PROGRAM_BY_NAME))


def level_of_program(found):
    """The innermost frame of the program's own; `None` where there is none."""
    return next((level for level, frame in enumerate(found) if is_of_program(frame)), None)


def place(said=""):
    """Where the cursor is, as each answer ends."""
    answer = {"position": when()}
    thread = gdb.selected_thread()
    if thread is not None:
        answer["process"], answer["thread"] = thread.ptid[0], thread.ptid[1] or thread.ptid[0]
    found = frames(FRAMES_MAX)
    answer["frame"] = described(found[0], 0, False)
    # Deep in a library the line of the program that led there says more.
    lines, level = source(found[0]), level_of_program(found)
    if level is None and lines is None:
        level = next((level for level, frame in enumerate(found) if source(frame) is not None), None)
    if level:
        answer["from"] = described(found[level], level, False)
        if lines is None:
            lines = source(found[level])
        else:
            answer["from"]["source"] = source(found[level])
    if lines:
        answer["source"] = lines
    notes = [line for line in said.splitlines() if line.startswith(("retrovane:", "Program ", "No more reverse"))]
    if notes:
        answer["said"] = notes
    return answer


# Names of bookmarks, and what `go` takes beside them.
BOOKMARK = r"[A-Za-z_]\w{0,60}"
PLACES = ("start", "begin", "end", "crash")


def go(arguments):
    to = arguments.get("to")
    if not isinstance(to, str) or not re.fullmatch(rf"\d{{1,20}}(\+\d{{1,20}})?|{BOOKMARK}", to):
        raise Refused("`to` is start, end, crash, a bookmark's name, or a position such as 109 or 109+4578")
    try:
        said = seek({"start": "begin", "crash": "end"}.get(to, to))
    except gdb.GdbError as error:
        if "is no position" in str(error):
            raise Refused(f"{to} is no bookmark of this cursor: `bookmark` makes one") from None
        raise
    if to == "crash" and "[The program exits" in said:
        raise Refused("this process did not crash: it exited")
    if "is not in the recording" in said:
        raise Refused(f"{to} is not in the recording")
    return place(said)


def bookmark(arguments):
    name = arguments.get("name")
    if name is not None:
        if not isinstance(name, str) or not re.fullmatch(BOOKMARK, name) or name in PLACES:
            raise Refused(f"a bookmark's name is a word, and none of {', '.join(PLACES)}")
        ask("mark " + name)
    marks = dict(line.split("\t", 1) for line in ask("marks").splitlines() if "\t" in line)
    return {"position": when(), "bookmarks": marks}


def where(_):
    return place()


def backtrace(arguments):
    most = number(arguments, "frames", 12, FRAMES_MAX)
    with_locals = bool(arguments.get("locals", False))
    found = frames(FRAMES_MAX + 1)
    answer = place()
    levels = shown_levels(len(found), level_of_program(found[:FRAMES_MAX]), most)
    answer["frames"] = [described(found[level], level, with_locals) for level in levels]
    answer["more"] = len(levels) < len(found)
    return answer


def shown_levels(count, of_program, most):
    """Those of the innermost frames. Where a library is in front of the program's own, its two innermost ones, and those
    from the one on that the program called."""
    if of_program is None or of_program + 2 < most or most < 4:
        return range(min(count, most))
    begin = of_program - 1
    return [0, 1, *range(begin, min(count, begin + most - 2))]


def evaluate(arguments):
    level = arguments.get("frame", 0)
    if not isinstance(level, int) or not 0 <= level < FRAMES_MAX:
        raise Refused(f"frame is a number from 0 to {FRAMES_MAX - 1}")
    names = arguments.get("expressions")
    if isinstance(names, str):
        names = [names]
    if not isinstance(names, list) or not 1 <= len(names) <= 16:
        raise Refused("`expressions` is a list of 1 to 16 expressions")
    found = frames(level + 1)
    if len(found) <= level:
        raise Refused(f"there are only {len(found)} frames")
    if len(names) == 1:
        checked(names[0])
    found[level].select()
    values = {}
    try:
        for name in names:
            if not isinstance(name, str):
                raise Refused("an expression is a text")
            try:
                value = gdb.parse_and_eval(checked(name))
                values[name] = {"value": shown(value), "type": str(value.type)[:120]}
            except (gdb.error, Refused) as error:
                values[name] = {"error": str(error)}
    finally:
        found[0].select()
    return {"position": when(), "frame": described(found[level], level, False), "values": values}


# What a line of C, C++, Rust or Go may follow: names with members and elements.
NAME = r"[A-Za-z_]\w*"
MEMBER = rf"\s*(?:->|\.)\s*{NAME}|\[[\w ]+\]"
FOLLOWED = rf"{NAME}(?:{MEMBER})*"
# A member of what a bad pointer names lies so far behind it at most, in bytes.
MEMBER_BYTES_MAX = 1 << 16


def prefixes(expression):
    """`a->b[1]` with all that it begins with: `a`, `a->b`."""
    name = re.match(NAME, expression).end()
    ends = [found.end() for found in re.compile(MEMBER).finditer(expression, name)]
    return [expression[:end] for end in [name] + ends]


def faulting_pointer(frame, address):
    """The expression in the frame's line whose value is the pointer that led to this address."""
    lines = [line[6:] for line in source(frame) or [] if line.startswith(">")]
    candidates = [prefix for line in lines for found in re.findall(FOLLOWED, line) for prefix in prefixes(found)]
    best = None
    for expression in dict.fromkeys(candidates):
        try:
            value = gdb.parse_and_eval(checked(expression))
            if value.type.strip_typedefs().code != gdb.TYPE_CODE_PTR:
                continue
            distance = address - int(value)
        except (gdb.error, Refused):
            continue
        if 0 <= distance < MEMBER_BYTES_MAX and (best is None or distance < best[0]):
            best = (distance, expression, shown(value))
    return best


def blame(_):
    """At a crash: which pointer was followed, and who wrote it last. Goes back to there."""
    try:
        address = int(gdb.parse_and_eval("$_siginfo._sifields._sigfault.si_addr"))
    except gdb.error:
        raise Refused("no fault")
    # In a function of a library without source, the program's line that called it.
    for level, frame in enumerate(frames(FRAMES_MAX)):
        if source(frame) is None:
            continue
        frame.select()
        found = faulting_pointer(frame, address)
        if found is None:
            raise Refused("no expression of the line has the address that was followed")
        _, expression, value = found
        blamed = {"expression": expression, "value": value, "level": level}
        # Later passages of the line have other values: its place is watched, not its name.
        blamed.update(last_write({"expression": expression}))
        return blamed
    raise Refused("no line of the stack has a source that can be read")


def last_write(arguments):
    expression = checked(arguments.get("expression"))
    write = back_to_write(expression)
    if write is None:
        here = when()
        return {"position": here, "written": False, "said": [f"{expression} was not written before {here}"]}
    old, new, writers, hint = write
    answer = {"written": True, "old": old[:VALUE_CHARS_MAX], "new": new[:VALUE_CHARS_MAX]}
    if writers:
        answer["by others"] = writers
    answer.update(place())
    if hint:
        answer["said"] = [*answer.get("said", []), hint]
    answer["frames"] = [described(frame, level, False) for level, frame in enumerate(frames(5))]
    return answer


def writes(arguments):
    expression = checked(arguments.get("expression"))
    most = number(arguments, "most", 10, WRITES_MAX)
    here, found = when(), []
    with BreakpointsOff():
        watched = Watched(expression)
        new = watched.value()
        more = True
        try:
            while len(found) < most:
                if not watched.back():
                    more = False
                    break
                old, frame = watched.value(), gdb.newest_frame()
                found.append({"position": when(), "old": old[:120], "new": new[:120], "frame": described(frame, 0, False)})
                new = old
        finally:
            watched.delete()
            seek(here)
    return {"position": here, "expression": expression, "writes": found, "more": more}


MOVES = {
    "back_line": "reverse-next", "back_into": "reverse-step", "back_to_caller": "reverse-finish",
    "line": "next", "into": "step", "out": "finish",
}


def step(arguments):
    way = arguments.get("way", "back_line")
    if way not in MOVES:
        raise Refused(f"`way` is one of {', '.join(MOVES)}")
    times = number(arguments, "times", 1, 1000)
    said = ""
    for _ in range(times if way not in ("back_to_caller", "out") else 1):
        said = gdb.execute(MOVES[way], to_string=True)
        if "No more reverse" in said or "exited" in said:
            break
    return place(said)


def run_to(arguments):
    at = location(arguments.get("location"))
    command = "continue" if arguments.get("forward", False) else "reverse-continue"
    condition = arguments.get("condition")
    with BreakpointsOff():
        breakpoint = gdb.Breakpoint(at, internal=True)
        try:
            if breakpoint.pending:
                raise Refused(f"{at} is not in the program: the name, or its debug information, is missing")
            breakpoint.silent = True
            if condition is not None:
                breakpoint.condition = checked(condition)
            before = breakpoint.hit_count
            ask("signals ignored")
            try:
                said = gdb.execute(command, to_string=True)
            finally:
                ask("signals told")
            hit = breakpoint.hit_count > before
        finally:
            breakpoint.delete()
    answer = place(said)
    answer["reached"] = hit
    return answer


def threads(_):
    listed = []
    everyone = sorted(gdb.selected_inferior().threads(), key=lambda thread: thread.ptid[1] or thread.ptid[0])
    chosen = gdb.selected_thread()
    for thread in everyone[:THREADS_MAX]:
        about = {"thread": thread.ptid[1] or thread.ptid[0], "name": thread.name, "selected": thread == chosen}
        listed.append(about)
        try:
            thread.switch()
            found = frames(FRAMES_MAX)
            about["frames"] = [described(frame, level, False) for level, frame in enumerate(found[:FRAMES_OF_THREAD])]
            level = level_of_program(found)
            if level is not None and level >= FRAMES_OF_THREAD:
                about["from"] = described(found[level], level, False)
        except gdb.error as error:
            about["error"] = str(error)
    if chosen is not None:
        chosen.switch()
    return {"position": when(), "threads": listed, "more": len(everyone) > THREADS_MAX}


VERBS = {"blame": blame, "where": where, "go": go, "bookmark": bookmark, "backtrace": backtrace, "evaluate": evaluate,
         "last_write": last_write, "writes": writes, "step": step, "run_to": run_to, "threads": threads}


def answered(line):
    """The answer to a request. The position of before comes back where it fails."""
    here = None
    try:
        request = json.loads(line)
        verb = VERBS.get(request.get("verb"))
        if verb is None:
            raise Refused(f"there is no such verb; those that there are: {', '.join(VERBS)}")
        here = when()
        return verb(request.get("arguments") or {})
    except Refused as error:
        problem = str(error)
    except KeyboardInterrupt:
        problem = "given up, as was asked"
    except (gdb.GdbError, gdb.error, RuntimeError, ValueError, TypeError) as error:
        problem = str(error) or type(error).__name__
    answer = {"error": problem}
    try:
        if here is not None and when() != here:
            seek(here)
        answer["position"] = when()
    except (gdb.GdbError, gdb.error) as error:
        answer["error"] += f"; and then: {error}"
    return answer


def send(stream, answer):
    """Sends an answer, and which sources were read for it."""
    stream.write(json.dumps(answer | {"sources_read": sorted(READ)}) + "\n")
    stream.flush()
    READ.clear()


def serve():
    for setting in ("pagination off", "width 0", "print elements 200", "may-call-functions off"):
        try:
            gdb.execute("set " + setting, to_string=True)
        except gdb.error:
            # An older gdb does not know all of them.
            pass
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(os.environ["RETROVANE_VERBS"])
        with connection.makefile("rw", encoding="utf-8", errors="replace") as stream:
            send(stream, answered('{"verb": "where"}'))
            while True:
                try:
                    line = stream.readline()
                except KeyboardInterrupt:
                    # What was to be given up had just ended.
                    continue
                if not line:
                    return
                send(stream, answered(line))


serve()
