"""Commands for gdb on a recording of retrovane. `help retrovane` lists them."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import gdb
import gdb.unwinder


def ask(command):
    """What the server answers to a monitor command."""
    if gdb.selected_inferior().pid == 0:
        raise gdb.GdbError("The program has ended, and its past with it. `retrovane` starts it again.")
    # The first line of several may begin with blanks.
    return gdb.execute("monitor " + command, to_string=True).strip("\n").rstrip()


def when():
    """The present position."""
    return ask("when").split("\n")[0]


def seek(position):
    """Goes to a position; gdb takes it for a step."""
    problem = ask("seek " + position)
    if problem:
        raise gdb.GdbError(problem)
    return move()


class Quiet:
    """gdb says nothing by itself of stops meanwhile, if it knows how to."""

    SETTING = "suppress-cli-notifications"

    def __enter__(self):
        try:
            self.before = gdb.parameter(self.SETTING)
            gdb.execute(f"set {self.SETTING} on", to_string=True)
            self.is_quiet = True
        except (gdb.error, RuntimeError):
            self.is_quiet = False
        return self

    def __exit__(self, *_):
        if self.is_quiet:
            gdb.execute(f"set {self.SETTING} {'on' if self.before else 'off'}", to_string=True)


class BreakpointsOff:
    """Breakpoints of these kinds, or all and watchpoints too, are disabled meanwhile."""

    def __init__(self, *kinds):
        self.kinds = kinds

    def __enter__(self):
        self.were_on = [one for one in gdb.breakpoints()
                        if one.enabled and (not self.kinds or one.type in self.kinds)]
        for one in self.were_on:
            one.enabled = False

    def __exit__(self, *_):
        for one in map(thrown.present, self.were_on):
            if one.is_valid():
                one.enabled = True


# Where a thread stands at one gdb would step over it, and some versions give up where that
# ends in another thread. `catch throw` and its like are places in code, too.
STEPPED_OVER = (gdb.BP_BREAKPOINT, getattr(gdb, "BP_HARDWARE_BREAKPOINT", gdb.BP_BREAKPOINT),
                getattr(gdb, "BP_CATCHPOINT", gdb.BP_BREAKPOINT))


def move():
    """The movement that was planned; gdb takes it for a step."""
    with Quiet() as quiet, BreakpointsOff(*STEPPED_OVER):
        text = gdb.execute("stepi", to_string=True)
        # Other libraries may be loaded there.
        gdb.execute("sharedlibrary", to_string=True)
    if quiet.is_quiet:
        said = [line for line in text.splitlines() if line.startswith(("retrovane: ", "[The "))]
        # A program that has ended has none.
        try:
            said.append(gdb.execute("frame", to_string=True))
        except gdb.error:
            pass
        text = "\n".join(said)
    return text


class Command(gdb.Command):
    """A command of retrovane."""

    def __init__(self):
        super().__init__(self.NAME, gdb.COMMAND_OBSCURE)

    def invoke(self, argument, from_tty):
        self.from_tty = from_tty
        try:
            self.run(argument.strip())
        except gdb.error as error:
            # Said as gdb's own commands say it.
            raise gdb.GdbError(str(error)) from None

    def run(self, argument):
        """What the server answers to the same words."""
        print(ask(f"{self.NAME} {argument}"))


class Stops:
    """What stopped the program meanwhile."""

    def __enter__(self):
        self.others = 0
        gdb.events.stop.connect(self.note)
        return self

    def __exit__(self, *_):
        gdb.events.stop.disconnect(self.note)

    def note(self, event):
        at_own = isinstance(event, gdb.BreakpointEvent) and not any(one.number > 0 for one in event.breakpoints)
        self.others += isinstance(event, (gdb.BreakpointEvent, gdb.SignalEvent)) and not at_own

    def are_steps(self):
        """True if nothing but steps and breakpoints of our own."""
        return self.others == 0


# So often a line is gone on with below which gdb gave up.
WAYS_OUT_MAX = 200
CALL_BYTES_MAX = 7


def own_places():
    """Where gdb itself stops a movement that goes forward: at jumps out of functions."""
    kinds = {}
    for line in gdb.execute("maint info breakpoints", to_string=True).splitlines():
        found = re.match(r"\S+\s+(.+?)\s+(?:keep|del|dis|dstp)\s+[yn]\s+(0x[0-9a-f]+)\s", line)
        if found:
            kinds.setdefault(int(found[2], 16), []).append(found[1])
    own = [place for place, all_there in kinds.items()
           if all(re.search("longjmp|exception", kind) for kind in all_there)]
    return "".join(f"-{place:x} " for place in own)


def come_out_to(frame):
    """Goes back to the call at which a frame is that is not the newest; true if it came there."""
    back_at, stack = frame.pc(), int(frame.read_register("rsp")) & (1 << 64) - 1
    place = call_before(frame, back_at)
    if place is None:
        return False
    stop = gdb.Breakpoint(f"*{place:#x}", internal=True)
    try:
        stop.silent = True
        stop.condition = f"$rsp == {stack:#x}"
        gdb.execute("continue", to_string=True)
    finally:
        stop.delete()
    return gdb.newest_frame().pc() == place


def call_before(frame, back_at):
    """The address of the call behind which this is."""
    architecture = frame.architecture()

    def is_call(one):
        return one["addr"] + one["length"] == back_at and "call" in one["asm"]

    try:
        function = frame.block()
        while function.function is None and function.superblock is not None:
            function = function.superblock
        all_before = architecture.disassemble(function.start, back_at - 1)
        return next((one["addr"] for one in all_before if is_call(one)), None)
    except (gdb.error, RuntimeError):
        tried = (architecture.disassemble(back_at - size)[0] for size in range(2, CALL_BYTES_MAX + 1))
        return next((one["addr"] for one in tried if is_call(one)), None)


class Backwards:
    """Commands of gdb's go back meanwhile."""

    def __init__(self, forward):
        self.forward = forward

    def __enter__(self):
        if gdb.parameter("exec-direction") == "reverse":
            raise gdb.GdbError(f"Already in reverse mode.  Use '{self.forward}' or 'set exec-dir forward'.")
        gdb.execute("set exec-direction reverse")

    def __exit__(self, *_):
        # The program may be gone, and its past with it.
        try:
            gdb.execute("set exec-direction forward")
        except gdb.error:
            pass


class BackByLine(Command):
    """A command of gdb's that goes back by a line. gdb steps back by each instruction, round by round where
the line is a loop. At each it decides by place and frame, unless it counts or looks at memory:
where it does not, the server is told so, and leads over rounds that are like those before."""

    ALIAS = ""
    FORWARD = ""
    # Calls are nothing to it.
    OVER = "over "

    def __init__(self):
        super().__init__()
        if gdb.execute(f"help {self.ALIAS}", to_string=True) != gdb.execute(f"help {self.NAME}", to_string=True):
            gdb.execute(f"alias {self.ALIAS} = {self.NAME}")

    def run(self, argument):
        count = int(argument) if argument.isdecimal() else 1
        with Backwards(self.FORWARD):
            if count < 2:
                self.back(argument)
            for _ in range(count if count > 1 else 0):
                if not self.back(""):
                    break

    def back(self, argument):
        """One line; true if nothing else stopped it."""
        begin = gdb.newest_frame()
        with Stops() as stops:
            text = self.step(argument)
            for _ in range(WAYS_OUT_MAX):
                caller = self.lost_below(begin) if stops.are_steps() else None
                if caller is None or not come_out_to(caller) or not stops.are_steps():
                    break
                text = self.step("")
        print(text, end="")
        return stops.are_steps()

    def step(self, argument):
        places = "" if argument else self.places()
        if places:
            ask(f"repeats {self.OVER}{own_places()}{places}")
        try:
            return gdb.execute(f"{self.FORWARD} {argument}", to_string=True)
        finally:
            try:
                if places:
                    ask("repeats told")
            except (gdb.error, gdb.GdbError):
                pass

    def lost_below(self, begin):
        """Where gdb gave up below the frame where it began, as it does behind calls that end as jumps
        (the end of a C++ handler): that frame."""
        try:
            frame = gdb.newest_frame()
            if frame == begin or not self.OVER and frame.find_sal().line != 0:
                return None
            while frame is not None and frame != begin:
                frame = frame.older()
            return frame
        except gdb.error:
            return None

    @staticmethod
    def places():
        """The functions of the two innermost frames. None where gdb compares memory at each step."""
        if any(one.enabled and one.type == gdb.BP_WATCHPOINT for one in gdb.breakpoints() or ()):
            return ""
        found = []
        try:
            frame = gdb.newest_frame()
            while frame is not None and len(found) < 2:
                block = frame.block()
                while block.superblock is not None and not block.superblock.is_static:
                    block = block.superblock
                found.append(f"{block.start:x},{block.end:x}")
                frame = frame.older()
        # No frame, or one of code without debug information.
        except (gdb.error, RuntimeError):
            pass
        return " ".join(found)


class ReverseNext(BackByLine):
    """Step program backward, proceeding through subroutine calls.
Usage: reverse-next [N]
Like the "step" command as long as subroutine calls do not happen;
when they do, the call is treated as one instruction.
Argument N means do this N times (or till program stops for another reason)."""

    NAME = "reverse-next"
    ALIAS = "rn"
    FORWARD = "next"


class ReverseStep(BackByLine):
    """Step program backward until it reaches the beginning of another source line.
Usage: reverse-step [N]
Argument N means do this N times (or till program stops for another reason)."""

    NAME = "reverse-step"
    ALIAS = "rs"
    FORWARD = "step"
    OVER = ""


class ReverseNextInstruction(BackByLine):
    """Step backward one instruction, but proceed through called subroutines.
Usage: reverse-nexti [N]
Argument N means do this N times (or till program stops for another reason)."""

    NAME = "reverse-nexti"
    ALIAS = "rni"
    FORWARD = "nexti"


class ReverseFinish(Command):
    """Execute backward until just before selected stack frame is called."""

    NAME = "reverse-finish"

    def run(self, argument):
        with Backwards("finish"), Stops() as stops:
            frame = gdb.selected_frame()
            caller = frame.older()
            # gdb goes to where the function begins, which may be that of a deeper call; but it
            # knows where other frames end.
            if argument or caller is None or {frame.type(), caller.type()} != {gdb.NORMAL_FRAME}:
                gdb.execute(f"finish {argument}")
                return
            if self.from_tty:
                print("Run back to call of", gdb.execute("frame", to_string=True).splitlines()[0])
            if not come_out_to(caller) and stops.are_steps():
                gdb.execute("finish")
            elif stops.are_steps():
                print(re.sub(r"^#0\s+", "", gdb.execute("frame", to_string=True)), end="")


class Retrovane(Command):
    """Commands on a recording: when, seek, mark, timeline, last-write, who, sender, log,
checkpoint, rollback, discard, info checkpoints; keyframe; live; screenshot.
All of gdb's reverse- commands work, too."""

    NAME = "retrovane"

    def run(self, _):
        gdb.execute("help retrovane")


class When(Command):
    """The present position on the timeline: events+instructions."""

    NAME = "when"

    def run(self, _):
        print(when())


class Seek(Command):
    """Go to a position: seek POSITION | NAME of a mark | begin | end."""

    NAME = "seek"

    def run(self, argument):
        if not argument:
            raise gdb.GdbError("seek needs a position, a mark's name, begin or end")
        print(seek(argument), end="")


class Mark(Command):
    """Name the present position: mark NAME. Without a name: list all."""

    NAME = "mark"

    def run(self, argument):
        print(ask("mark " + argument) if argument else ask("marks"))


class Checkpoint(Command):
    """Keep the present position under a number."""

    NAME = "checkpoint"

    def run(self, _):
        print(ask("checkpoint"))


class Keyframe(Command):
    """Write the present position to the disk, beside the recording: another time, going there
or somewhere behind it begins there."""

    NAME = "keyframe"

    def run(self, _):
        print(ask("keyframe"))


class Rollback(Command):
    """Go back to a checkpoint: rollback NUMBER. A live program goes back in place, and is
live from there: what came after is dropped."""

    NAME = "rollback"

    def run(self, argument):
        problem = ask("rollback " + argument)
        if problem:
            raise gdb.GdbError(problem)
        print(move(), end="")


class Live(Command):
    """Go to the present of a live program: from there on it is live again."""

    NAME = "live"

    def run(self, _):
        problem = ask("live")
        if problem:
            raise gdb.GdbError(problem)
        print(move(), end="")


class Branch(Command):
    """From here on in a copy of the program that goes on by itself: branch | branch off.
In it memory and registers can be written. It is thrown away by going back, by
rollback and seek, and by branch off, which leads back to where it began."""

    NAME = "branch"

    def run(self, argument):
        text = ask("branch " + argument)
        if argument == "off" and not text:
            print(move(), end="")
        else:
            print(text)


class Discard(Command):
    """Forget a checkpoint: discard NUMBER."""

    NAME = "discard"


class InfoCheckpoints(Command):
    """Checkpoints and their positions."""

    NAME = "info checkpoints"

    def run(self, _):
        print(ask("checkpoints") or "No checkpoints.")


class Timeline(Command):
    """The recording as a picture: threads, signals, pauses, marks, the present.
timeline --html [FILE] writes it as a page, to timeline.html if no file is named."""

    NAME = "timeline"

    def run(self, argument):
        words = argument.split(None, 1)
        if words[:1] != ["--html"]:
            super().run(argument)
            return
        path = words[1] if len(words) > 1 else "timeline.html"
        text = ask("timeline --html")
        if not text.startswith("<"):
            raise gdb.GdbError(text)
        with open(path, "w", encoding="utf-8") as page:
            page.write(text + "\n")
        print(f"written to {path}")


class AutoCheckpoint(Command):
    """Keep a checkpoint each time that the program has run so long: autocheckpoint
500ms | 2s | off. They make going back fast, and cost memory."""

    NAME = "autocheckpoint"


class Log(Command):
    """Events of the log: log FIRST-LAST, or those around the present position."""

    NAME = "log"


class NoRun(Command):
    """What run, start and starti do here: nothing."""

    NAME = "retrovane-no-run"

    def run(self, _):
        raise gdb.GdbError("Nothing is started here: `seek begin` leads back to where the program began; "
                           "`retrovane debug` and `retrovane record` start it again.")


class NoAttach(Command):
    """What attach does here: nothing. gdb would end the program for it."""

    NAME = "retrovane-no-attach"

    def run(self, _):
        raise gdb.GdbError("No other process is looked at in this gdb. `retrovane replay --pid ID` opens one of "
                           "a recording; those of a live program behind `retrovane ctl NAME save DIRECTORY`; "
                           "`retrovane live --attach PID` takes up one that runs already.")


class Language:
    """Expressions are of this language meanwhile."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.before = gdb.parameter("language")
        gdb.execute(f"set language {self.name}", to_string=True)

    def __exit__(self, *_):
        gdb.execute(f"set language {self.before}", to_string=True)


def watched_place(address, size):
    """A place as an expression of C. Each language writes a pointer in its own way; the bytes are the same."""
    words = {1: "char", 2: "short", 4: "int", 8: "long"}
    kind = f"{words[size]} *" if size in words else f"char (*)[{size}]"
    return f"*({kind}) {address:#x}"


class Watched:
    """A watchpoint on the place of an expression, for as long as it is wanted."""

    def __init__(self, expression):
        try:
            value = gdb.parse_and_eval(expression)
        except gdb.error as error:
            raise gdb.GdbError(f"{expression}: {error}") from error
        if value.address is None:
            raise gdb.GdbError(f"{expression} has no address")
        self.expression = expression
        self.pointer = value.address
        place = watched_place(int(value.address), value.type.sizeof)
        with Language("c"):
            self.breakpoint = gdb.Breakpoint(place, gdb.BP_WATCHPOINT, gdb.WP_WRITE, internal=True)
        self.breakpoint.silent = True

    def value(self):
        try:
            value = self.pointer.dereference()
            value.fetch_lazy()
            return str(value)
        except gdb.MemoryError:
            return "(not there)"

    def back(self):
        """Back to the last write; false at the beginning of history."""
        before = self.breakpoint.hit_count
        ask("signals ignored")
        try:
            with Quiet():
                gdb.execute("reverse-continue", to_string=True)
        finally:
            ask("signals told")
        return self.breakpoint.hit_count > before

    def delete(self):
        self.breakpoint.delete()


def others():
    """Who changed the watched place, where it was none of the process's own instructions."""
    return ask("others")


class Holder:
    """The call that has an expression's place on its stack, if the selected frame's has."""

    FRAMES_MAX = 200
    # Functions that call no other may use so much below the stack's end.
    RED_ZONE_BYTES = 128

    def __init__(self, address):
        self.name = self.top = None
        try:
            frame = gdb.selected_frame()
            begin, top = int(frame.read_register("rsp")), self.end(frame)
        except (gdb.error, ValueError):
            return
        if begin - self.RED_ZONE_BYTES <= int(address) < (top or 1 << 64):
            self.name, self.top = frame.name(), top

    @staticmethod
    def end(frame):
        """Where a frame ends; 0 for the outermost, `main`, which tells no end: of that there is one."""
        older = frame.older()
        return 0 if older is None else int(older.read_register("rsp"))

    def is_absent(self):
        """Whether this is a moment at which that call had not begun."""
        if self.name is None:
            return False
        frame, found = gdb.newest_frame(), 0
        while frame is not None and found < self.FRAMES_MAX:
            try:
                if frame.name() == self.name and self.end(frame) == self.top:
                    return False
                frame, found = frame.older(), found + 1
            except gdb.error:
                return False
        return found < self.FRAMES_MAX


def back_to_write(expression):
    """Goes back to the last write of an expression's place: the values before and behind it, who else
    wrote, and what is to be known of it. None if there is none, and the position stays."""
    here = when()
    with BreakpointsOff():
        watched = Watched(expression)
        holder = Holder(watched.pointer)
        new = watched.value()
        try:
            found = watched.back()
            writers = others()
            old = watched.value()
        finally:
            watched.delete()
        if not found:
            # Before other breakpoints are back, which may not be known there.
            seek(here)
            return None
    hint = ""
    if holder.is_absent():
        hint = (f"This was before {holder.name} was called: its stack was another's then, and {expression} has been "
                "written since only with what stood there.")
    return old, new, writers, hint


class LastWrite(Command):
    """Go back to the last write of an expression's place, and show it."""

    NAME = "last-write"

    def run(self, argument):
        if not argument:
            raise gdb.GdbError("last-write needs an expression")
        write = back_to_write(argument)
        if write is None:
            print(f"{argument} was not written before")
            return
        old, new, writers, hint = write
        print("\n".join(filter(None, [f"{when()}: {argument}: {old} -> {new}", writers, hint])))
        gdb.execute("backtrace 5")


class Who(Command):
    """All writes of an expression's place before the present: who EXPRESSION [MAX].
The present position stays what it is."""

    NAME = "who"

    def run(self, argument):
        words = argument.rsplit(None, 1)
        most = 20
        if len(words) == 2 and words[1].isdigit():
            argument, most = words[0], int(words[1])
        if not argument:
            raise gdb.GdbError("who needs an expression")
        here = when()
        with BreakpointsOff():
            watched = Watched(argument)
            new = watched.value()
            try:
                for _ in range(most):
                    if not watched.back():
                        break
                    old = watched.value()
                    writers = others()
                    where = gdb.execute("backtrace 3", to_string=True).rstrip()
                    print("\n".join(filter(None, [f"{when()}: {old} -> {new}", writers, where])))
                    new = old
            finally:
                watched.delete()
            seek(here)


class Screenshot(Command):
    """What the program's windows showed at the present position: screenshot FILE [DISPLAY].
The X11 display (that of the environment, if none is named) draws it, in a window of its own. FILE is PNG, or PPM
if its name ends so."""

    NAME = "screenshot"

    def run(self, argument):
        words = gdb.string_to_argv(argument)
        if len(words) not in (1, 2):
            raise gdb.GdbError("screenshot FILE, or screenshot FILE DISPLAY")
        if "RETROVANE_TRACE" not in os.environ:
            raise gdb.GdbError("Pictures are made of recordings: `retrovane ctl NAME save DIRECTORY` makes one "
                               "of a live program's past.")
        command = [os.environ["RETROVANE_OWN"], "screenshot", os.environ["RETROVANE_TRACE"], "-o",
                   os.path.expanduser(words[0]), "--pid", str(gdb.selected_inferior().pid), "--at", when()]
        command += [f"--display={display}" for display in words[1:]]
        ran = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                             check=False)
        said = ran.stderr.decode(errors="replace").strip()
        if ran.returncode:
            raise gdb.GdbError(said)
        print("\n".join(filter(None, [said, f"written to {words[0]}"])))


class Sender(Command):
    """Which event of which process sent what this one received last: sender.
Over pipes, sockets and queues, by signals, waits and births, and through memory that processes share.
`sender go` goes there: the other process becomes another inferior, and `inferior 1` leads back here."""

    NAME = "sender"
    ENDS_WITHIN_S = 600

    def run(self, argument):
        if argument not in ("", "go"):
            raise gdb.GdbError("sender, or sender go")
        if "RETROVANE_TRACE" not in os.environ:
            raise gdb.GdbError("Who sent what is known of recordings: `retrovane ctl NAME save DIRECTORY` makes one "
                               "of a live program's past.")
        answer = self.ask_index()
        received = answer["received"]
        print(f"{answer['by']}, event {received['event']}: {received.get('text', '')}")
        for sent in answer["sent"]:
            print(f"sent by process {sent['process']} ({sent.get('program', '?')}) at {sent['position']}: "
                  f"{sent.get('text', '')}")
        for said in answer.get("said", []):
            print(said)
        if not answer["certain"]:
            print("This is not certain: others sent the same.")
        if argument == "go":
            if not answer["sent"]:
                raise gdb.GdbError("Nobody of this recording sent it.")
            # Where a message came in parts, the last of them completed it.
            self.go(answer["sent"][-1])

    @staticmethod
    def ask_index():
        words = ["query", "sender", os.environ["RETROVANE_TRACE"], "--pid", str(gdb.selected_inferior().pid),
                 "--at", when()]
        ran = subprocess.run([os.environ["RETROVANE_OWN"], *words], stdin=subprocess.DEVNULL, capture_output=True,
                             check=False)
        try:
            answer = json.loads(ran.stdout)
        except ValueError:
            raise gdb.GdbError(ran.stderr.decode(errors="replace").strip()) from None
        if "error" in answer:
            raise gdb.GdbError(answer["error"])
        return answer

    def go(self, sent):
        """Opens the other process at that position, beside this one, or goes there where it is open."""
        for other in gdb.inferiors():
            if other.pid == sent["process"]:
                gdb.execute(f"inferior {other.num}", to_string=True)
                print(seek(sent["position"]), end="")
                return
        folder = tempfile.mkdtemp(prefix="retrovane-gdb-")
        # The terminal's interrupt key is gdb's.
        server = subprocess.Popen(
            [os.environ["RETROVANE_OWN"], "serve-gdb", "--folder", folder, "--pid", str(sent["process"]), "--at",
             sent["position"], "--", os.environ["RETROVANE_TRACE"]], stdin=subprocess.DEVNULL, start_new_session=True)
        path = os.path.join(folder, "socket")
        until = time.monotonic() + self.ENDS_WITHIN_S
        while not os.path.exists(path):
            if server.poll() is not None or time.monotonic() > until:
                server.kill()
                raise gdb.GdbError("The other process could not be opened.")
            time.sleep(0.005)
        gdb.execute("add-inferior -no-connection", to_string=True)
        new = max(other.num for other in gdb.inferiors())
        gdb.execute(f"inferior {new}", to_string=True)
        gdb.execute(f"target remote {path}", to_string=True)
        ask("call announced")
        print(f"inferior {new} is process {sent['process']}, at {when()}; `inferior 1` leads back")
        gdb.execute("backtrace 5")


class Calls:
    """Tells the server of calls of the program's functions, which run in a copy."""

    def __init__(self):
        self.were_any = False
        gdb.events.inferior_call.connect(self.note)
        gdb.events.before_prompt.connect(self.done)
        ask("call announced")

    def note(self, event):
        """A call begins or ends."""
        self.were_any = True
        problem = ask("call begin" if isinstance(event, gdb.InferiorCallPreEvent) else "call end")
        if problem:
            print(problem)

    def begin(self):
        """What comes sets registers for a moment, as a call does."""
        self.were_any = True
        problem = ask("call begin")
        if problem:
            print(problem)

    def done(self):
        """The command is done that made calls: what is seen is the recording again."""
        if self.were_any:
            self.were_any = False
            ask("call done")
        languages.look()


class Languages:
    """What languages bring for gdb, once it is there."""

    RUST = "gdb_load_rust_pretty_printers.py"

    def __init__(self):
        self.knows_goroutines = False
        self.knows_rust = False
        self.looked_at = 0

    def look(self):
        """Looks for what was loaded since."""
        if not self.knows_goroutines and "GoroutineCmd" in globals():
            # Go's own command shows another stack by setting registers, and setting them back.
            self.knows_goroutines = True
            gdb.execute("define hook-goroutine\npython calls.begin()\nend")
            gdb.execute("define hookpost-goroutine\npython ask('call end')\nend")
        count = len(gdb.objfiles())
        if count != self.looked_at and not self.knows_rust:
            self.looked_at = count
            known = gdb.execute(f"info auto-load python-scripts {self.RUST}", to_string=True)
            # Where there is none, gdb says so: "No auto-load scripts matching ...".
            if self.RUST in known and "matching" not in known:
                self.load_rust()

    def load_rust(self):
        """Programs in Rust name a script that lies with the compiler: as rust-gdb finds it."""
        self.knows_rust = True
        try:
            root = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True,
                                  check=True, timeout=10).stdout.strip()
        except (OSError, subprocess.SubprocessError):
            return
        sys.path.append(f"{root}/lib/rustlib/etc")
        try:
            import gdb_lookup
            gdb_lookup.register_printers(gdb.current_progspace())
        except (ImportError, AttributeError):
            pass


class Forks:
    """Tells the server when forks are wanted, and the user what is not followed."""

    def __init__(self):
        if hasattr(gdb, "BP_CATCHPOINT"):
            gdb.events.breakpoint_created.connect(self.note)
        else:
            # Older ones do not tell of them.
            ask("forks")

    def note(self, created):
        """A breakpoint of some kind was made."""
        if created.type == gdb.BP_CATCHPOINT:
            text = gdb.execute(f"info breakpoints {created.number}", to_string=True)
            if "fork" in text:
                ask("forks")

    def stay(self):
        """What was just set would lead into a child."""
        if gdb.parameter("follow-fork-mode") == "child" or not gdb.parameter("detach-on-fork"):
            gdb.execute("set detach-on-fork on", to_string=True)
            gdb.execute("set follow-fork-mode parent", to_string=True)
            print("Children are not followed here, and this stays off: "
                  "`catch fork` tells their ids, and `retrovane replay --pid ID` opens them; those of a "
                  "live program behind `retrovane ctl NAME save DIRECTORY`; live, "
                  "`retrovane debug --child N` stands at the first instruction of the Nth.")


class Printers:
    """Loads what libraries bring for gdb: their files have other names here, by which gdb
would not find it."""

    def __init__(self):
        self.loaded = set()
        gdb.events.new_objfile.connect(lambda event: self.load(event.new_objfile))
        for known in gdb.objfiles():
            self.load(known)

    def load(self, objfile):
        """The scripts for a file that was loaded."""
        name = objfile.username or ""
        root = gdb.parameter("sysroot")
        if root and name.startswith(root):
            name = name[len(root):]
        folder = os.path.join(os.path.dirname(gdb.PYTHONDIR), "auto-load")
        name = os.path.realpath(name)
        for path in {name, name.replace("/lib/", "/usr/lib/", 1), name.replace("/usr/lib/", "/lib/", 1)}:
            script = f"{folder}{path}-gdb.py"
            if script not in self.loaded and os.path.exists(script):
                self.loaded.add(script)
                self.find_modules(script)
                gdb.execute(f"source {script}", to_string=True)
                return
        beside = f"{name}-gdb.py"
        if beside not in self.loaded and os.path.exists(beside):
            # gdb loads those only of folders that the user trusts.
            self.loaded.add(beside)
            trusted = gdb.parameter("auto-load safe-path").split(":")
            if any(beside.startswith(folder.rstrip("/") + "/") for folder in trusted if folder[:1] == "/"):
                gdb.execute(f"source {beside}", to_string=True)
            else:
                print(f"For gdb there is a script beside the program: source {beside}")

    def find_modules(self, script):
        """The folder of a script's modules, which libstdc++'s looks for only where gdb loads it."""
        with open(script, encoding="utf-8", errors="replace") as text:
            for line in text:
                if line.startswith("pythondir = '"):
                    folder = line.split("'")[1]
                    if os.path.isdir(folder) and folder not in sys.path:
                        sys.path.insert(0, folder)
                    return


class Thrown:
    """gdb 13 does not forget where `catch throw`, `catch catch` and `catch rethrow` stop when
their library goes, as it does at the beginning of history, and dies of that. They are made
anew then, without a place until the library comes again: with new numbers."""

    def __init__(self):
        # Old ones, and what stands for each.
        self.replaced = []
        if hasattr(gdb, "BP_CATCHPOINT") and hasattr(gdb.events, "free_objfile"):
            gdb.events.free_objfile.connect(self.forget)

    def present(self, breakpoint):
        """What stands for a breakpoint now."""
        for old, new in self.replaced:
            if old is breakpoint:
                breakpoint = new
        return breakpoint

    def forget(self, event):
        """A library goes."""
        if "c++" not in (event.objfile.filename or ""):
            return
        self.replaced = [pair for pair in self.replaced if pair[1].is_valid()]
        for old in gdb.breakpoints():
            if old.type == gdb.BP_CATCHPOINT:
                text = gdb.execute(f"info breakpoints {old.number}", to_string=True)
                kind = re.search(r"exception (throw|catch|rethrow)$", text, re.MULTILINE)
                matching = re.search(r"matching: (.*)$", text, re.MULTILINE)
                if kind:
                    self.replaced.append((old, self.make_anew(old, kind[1], matching[1] if matching else "")))

    def make_anew(self, old, kind, matching):
        """One like this, which is deleted."""
        command = "tcatch" if old.temporary else "catch"
        enabled, condition, ignored, commands = old.enabled, old.condition, old.ignore_count, old.commands
        old.delete()
        gdb.execute(f"{command} {kind} {matching}", to_string=True)
        new = gdb.breakpoints()[-1]
        new.enabled, new.condition, new.ignore_count = enabled, condition, ignored
        if commands:
            new.commands = commands
        return new


class DyingGoroutine(gdb.unwinder.Unwinder):
    """Go's runtime ends a program on a stack of its own, below which gdb finds nothing. There the goroutine is next that
left its own stack for it: the one that panicked."""

    # What they are called from has no more to do: no step of gdb's ends there.
    ENDS = ("runtime.exit", "runtime.raise", "runtime.raiseproc", "runtime.tgkill")
    THREADS_MAX = 10_000

    def __init__(self):
        super().__init__("retrovane-goroutine")
        self.ends = None
        gdb.events.new_objfile.connect(self.forget)
        gdb.unwinder.register_unwinder(None, self, replace=True)

    def forget(self, _):
        """Other files may be known now."""
        self.ends = None

    def ranges(self):
        """Where the code is that ends programs."""
        if self.ends is None:
            self.ends = []
            symbols = filter(None, map(gdb.lookup_global_symbol, self.ENDS))
            for symbol in symbols if gdb.lookup_global_symbol("runtime.allm") else ():
                block = gdb.block_for_pc(int(symbol.value().address))
                if block is not None:
                    self.ends.append((block.start, block.end))
        return self.ends

    def __call__(self, pending):
        try:
            pc = int(pending.read_register("rip"))
            begin = next((start for start, end in self.ranges() if start <= pc < end), None)
            left = begin and self.left_stack(int(pending.read_register("rsp")) & (1 << 64) - 1)
            if not left:
                return None
            word = pending.architecture().integer_type(64, False)
            # Frames are in the order of their stacks, for gdb: this one's name is below the goroutine's.
            name = self.Name(gdb.Value(int(left["sp"]) - 8).cast(word), gdb.Value(begin).cast(word))
            info = pending.create_unwind_info(name)
            for register, field in (("rip", "pc"), ("rsp", "sp"), ("rbp", "bp")):
                info.add_saved_register(register, gdb.Value(int(left[field])).cast(word))
            return info
        except (gdb.error, RuntimeError, AttributeError):
            return None

    class Name:
        """What tells a frame from others."""

        def __init__(self, sp, pc):
            self.sp, self.pc = sp, pc

    def left_stack(self, stack):
        """Where the goroutine goes on whose thread's own stack this is; the first one, `main`'s, where the runtime
found that none can."""
        thread = gdb.lookup_global_symbol("runtime.allm").value()
        for _ in range(self.THREADS_MAX):
            if not int(thread):
                return None
            bounds = thread["g0"]["stack"]
            if int(bounds["lo"]) <= stack < int(bounds["hi"]):
                goroutine = thread["curg"]
                if not int(goroutine):
                    goroutine = gdb.lookup_global_symbol("runtime.allgs").value()["array"].dereference()
                return goroutine["sched"] if int(goroutine["sched"]["sp"]) else None
            thread = thread["alllink"]
        return None


class Passed:
    """Signals that gdb's table withholds from the program, which it gets all the same."""

    def __init__(self):
        self.known = self.withheld()

    @staticmethod
    def withheld():
        """Their names."""
        rows = (line.split() for line in gdb.execute("info signals", to_string=True).splitlines())
        return {row[0] for row in rows if len(row) > 3 and row[0].startswith("SIG") and row[3] == "No"}

    def look(self):
        """The table was changed."""
        before, self.known = self.known, self.withheld()
        new = sorted(self.known - before)
        if new:
            names = ", ".join(new) if len(new) < 5 else "these signals"
            print(f"`nopass` has no effect here: the program gets {names} all the same.")


def name_death():
    """The signal that the program dies of where gdb begins."""
    number = ask("death")
    if number:
        try:
            number = f"{signal.Signals(int(number)).name}, {signal.strsignal(int(number))},"
        except ValueError:
            number = f"Signal {number}"
        print(f"[{number} kills the program here; history ends]")


for kind in (Retrovane, When, Seek, Mark, Checkpoint, Rollback, Branch, Discard, InfoCheckpoints, Live,
             Keyframe, Timeline, AutoCheckpoint, Log, LastWrite, Who, Sender, Screenshot, NoRun, NoAttach, ReverseNext,
             ReverseStep, ReverseNextInstruction, ReverseFinish):
    kind()

languages = Languages()
calls = Calls()
forks = Forks()
printers = Printers()
thrown = Thrown()
goroutine = DyingGoroutine()
for setting in ("follow-fork-mode", "detach-on-fork"):
    gdb.execute(f"define set hookpost-{setting}\npython forks.stay()\nend")
for starting in ("run", "start", "starti"):
    gdb.execute(f"define hook-{starting}\nretrovane-no-run\nend")
gdb.execute("define hook-attach\nretrovane-no-attach\nend")
passed = Passed()
gdb.execute("define hookpost-handle\npython passed.look()\nend")
if os.environ.get("RETROVANE_GREETS"):
    print("This runs backwards, too: reverse-continue, reverse-next, reverse-step, reverse-finish (rc, rn, rs).\n"
          "last-write EXPRESSION goes back to who wrote it, sender tells who sent what was read; seek, when: positions.\n"
          "`help retrovane` has the rest.")
if gdb.selected_inferior().pid:
    name_death()
