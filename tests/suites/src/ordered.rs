//! Commands from outside, to programs of tests/orders: what they say where something happens to
//! the program meanwhile, and for how long they wait.

use crate::TestResult;
use crate::run::User;
use crate::tool::Tool;
use crate::windowed::check_script;

/// A test of this kind: its name, a script, and what that prints.
#[derive(Clone, Copy)]
pub struct Ordered {
    pub name: &'static str,
    script: &'static str,
    prints: &'static str,
}

/// How all scripts begin.
const BEGIN: &str = r#"
export RETROVANE_HOME=$PWD/home
build() { gcc -O2 -iquote "$tests/../include" -iquote "$tests/guests" -iquote "$tests/live" -o prog "$tests/orders/$1.c"; }
trap 'kill -KILL -- $(cat out) 2> /dev/null || true' EXIT
count() { od -An -td4 -N4 state | tr -d ' '; }
begin_pair() {
    rm -f state out
    build pair
    "$rv" live --name=it -- ./prog > out 2> err &
    session=$!
    until [ -s out ]; do kill -0 $session; sleep 0.05; done
    read -r parent child < out
}
"#;

/// One of two that share memory is killed while both do the same again: the other is ended, and
/// who asked for it is told.
const KILLED: &str = r#"
for killed in child parent; do
    begin_pair
    "$rv" ctl it checkpoint
    began=$(count)
    until [ "$(count)" -ge $((began + 400)) ]; do kill -0 $session; sleep 0.05; done
    "$rv" ctl it replay 0 > replayed 2>&1 &
    asked=$!
    until [ "$(count)" -lt $((began + 300)) ]; do kill -0 $asked; done
    kill -KILL "${!killed}"
    code=0; wait $asked || code=$?
    # It may be killed before it has said that it begins.
    said=$(grep -v 'of its log again' replayed | sed 's/the process has ended/the process ended during the replay/')
    echo "the $killed was killed: $code $said"
    code=0; wait $session || code=$?
    echo "ended with $code"
    # Or it dies while both still go back, and the other finds that out by itself.
    grep -qE 'which shares memory with it, died while both did again|with this one did not go back with it' err
    echo "and the other was told"
done
"#;

/// One of two that share memory is stopped: the other cannot take a checkpoint without it, goes
/// on, and takes one when it goes on, too.
const STOPPED: &str = r#"
rm -f out
build asleep
"$rv" live --name=it -- ./prog > out 2> err &
session=$!
until [ -s out ]; do kill -0 $session; sleep 0.05; done
read -r parent child < out
kill -STOP "$child"
code=0; "$rv" ctl "$parent" checkpoint > refused 2>&1 || code=$?
echo "refused with $code"
grep -c 'or of one that shares memory with it, did not come to a stand' refused
kill -CONT "$child"
"$rv" ctl "$parent" checkpoint | sed 's/[0-9]*$/taken/'
"$rv" ctl "$parent" list | grep -c '^ *[0-9]'
"#;

/// What several checkpoints share, and the program has written since, counts: each of these has
/// most of its pages together with the one before it.
const MEMORY: &str = r#"
build rewrites
mkfifo asked
"$rv" live --name=it --checkpoints=fork --checkpoint-every=30ms --memory-max=100M -- ./prog < asked > out 2> err &
session=$!
exec 5> asked
until [ -s out ]; do kill -0 $session; sleep 0.05; done
pid=$(cat out)
newest() { "$rv" ctl it list | tail -1 | awk '{ print $1 + 0 }'; }
for round in 1 2 3 4 5; do
    printf $round >&5
    until [ "$(wc -l < out)" -gt $round ]; do kill -0 $session; sleep 0.05; done
    seen=$(newest)
    until [ "$(newest)" -ge $((seen + 4)) ]; do kill -0 $session; sleep 0.05; done
done
python3 - "$pid" <<'END'
import glob, sys

def memory(pid, name):
    try:
        lines = open(f"/proc/{pid}/smaps_rollup").read().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(name))

program = sys.argv[1]
shadows = {pid for path in glob.glob(f"/proc/{program}/task/*/children") for pid in open(path).read().split()}
parts = sum(memory(pid, "Pss_Anon:") for pid in shadows | {program})
held = (parts - memory(program, "Anonymous:")) >> 10
print("held as asked" if 0 < held <= 110 else f"{held} MB are held")
END
exec 5>&-
code=0; wait $session || code=$?
echo "ended with $code"
"#;

/// What is left of a log that was fed in vain is not taken for news.
const DIVERGES: &str = r#"
build diverges
code=0; "$rv" live -- ./prog > out 2> err || code=$?
echo "ended with $code"
grep -c 'it did something else than before' err
! grep 'no sequence of events' err
"#;

/// A program that does not obey yet is waited for, which is said, and keeps nobody else waiting.
const WAITS: &str = r#"
begin_pair
touch told also
# The session stops with its first process.
kill -STOP "$child"
"$rv" ctl "$child" checkpoint 2> told &
asked=$!
until grep -q "process $child is stopped" told; do kill -0 $asked; sleep 0.05; done
"$rv" ctl "$child" list | tail -n +2
"$rv" ctl "$child" discard 0 2> also &
also=$!
until grep -q 'another command is being obeyed' also; do kill -0 $also; sleep 0.05; done
kill -CONT "$child"
wait $asked
wait $also
echo "discarded"
kill -KILL "$parent" "$child"
wait $session || true
"#;

/// What led to a death from outside is saved: where the signal leaves a core, or was named, or is
/// SIGKILL.
const SAVED: &str = r#"
build saved
for how in save:TERM,USR1=TERM save:TERM,USR1=USR1 save=ABRT save=KILL save=TERM die=ABRT; do
    rm -rf crashed out
    "$rv" live --name=it --on-crash "${how%=*}" --crash-dir "$PWD/crashed" -- ./prog > out 2> err &
    session=$!
    # Until it sleeps behind its output, which is logged then.
    until [ -s out ] && grep -q '^State:.S' "/proc/$(cat out)/status"; do kill -0 $session; sleep 0.05; done
    kill -"${how#*=}" "$(cat out)"
    code=0; wait $session || code=$?
    if [ -d crashed ]; then
        again=0; "$rv" replay -q crashed > replayed 2> said || again=$?
        cmp out replayed
        echo "$how: $code, replayed with $again"
    else
        echo "$how: $code, nothing saved"
    fi
done
"#;

/// Threads that compute against each other are interrupted for a command, and the checkpoints that
/// are due all along give way to it.
const COMPUTING: &str = r#"
build computing
"$rv" live --name=it --checkpoint-every=10ms -- ./prog > out 2> err &
session=$!
until [ -s out ]; do kill -0 $session; sleep 0.05; done
taken=$("$rv" ctl it checkpoint | sed -n 's/^checkpoint //p')
"$rv" ctl it discard "$taken"
taken=$("$rv" ctl it checkpoint | sed -n 's/^checkpoint //p')
"$rv" ctl it rollback "$taken" | sed 's/[0-9]*$/taken/'
kill -KILL "$(cat out)"
code=0; wait $session || code=$?
echo "ended with $code"
"#;

impl Ordered {
    pub const ALL: [Ordered; 7] = [
        Ordered {
            name: "ordered::computing",
            script: COMPUTING,
            prints: "the program goes on from checkpoint taken\nended with 137\n",
        },
        Ordered {
            name: "ordered::killed_in_replay",
            script: KILLED,
            prints: "checkpoint 0\nthe child was killed: 125 retrovane: the process ended during the replay\nended with 137\nand the other was told\n\
                     checkpoint 0\nthe parent was killed: 125 retrovane: the process ended during the replay\nended with 137\nand the other was told\n",
        },
        Ordered { name: "ordered::diverges", script: DIVERGES, prints: "ended with 137\n1\n" },
        Ordered { name: "ordered::memory_limit", script: MEMORY, prints: "held as asked\nended with 0\n" },
        Ordered {
            name: "ordered::saved",
            script: SAVED,
            prints: "save:TERM,USR1=TERM: 143, replayed with 143\nsave:TERM,USR1=USR1: 138, replayed with 138\n\
                     save=ABRT: 134, replayed with 134\nsave=KILL: 137, replayed with 137\n\
                     save=TERM: 143, nothing saved\ndie=ABRT: 134, nothing saved\n",
        },
        Ordered {
            name: "ordered::stopped",
            script: STOPPED,
            prints: "refused with 125\n1\ncheckpoint taken\n1\n",
        },
        Ordered { name: "ordered::waits", script: WAITS, prints: "checkpoint 0\ndiscarded\n" },
    ];

    pub fn check(&self, tool: &Tool) -> TestResult {
        let script = [BEGIN, self.script].concat();
        check_script(tool, User::Current, &script, &|text| text == self.prints)
    }
}
