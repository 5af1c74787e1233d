"""Going back for editors that speak to gdb's own debug adapter (`gdb -i dap`), which has no
requests for it: -iex "source gdb/dap.py" adds stepBack and reverseContinue, and says so to the
editor, whose buttons for them appear then."""

from gdb.dap.events import exec_and_expect_stop
from gdb.dap.server import capability, request
from gdb.dap.startup import in_gdb_thread
from gdb.dap.state import set_thread


@in_gdb_thread
def back(thread, command):
    """Goes back in a thread; that it stopped is told as an event."""
    set_thread(thread)
    exec_and_expect_stop(command)


@capability("supportsStepBack")
@request("stepBack", response=False)
def step_back(*, threadId: int, granularity: str = "statement", **_):
    """One line or instruction back."""
    back(threadId, "reverse-nexti" if granularity == "instruction" else "reverse-next")


@request("reverseContinue", response=False)
def reverse_continue(*, threadId: int, **_):
    """Back to the last stop."""
    back(threadId, "reverse-continue")
