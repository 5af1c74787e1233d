//! Servers go back with their clients connected, and their data is what it was: PostgreSQL, all
//! processes of which go back as one, and Redis.

use crate::TestResult;
use crate::run::User;
use crate::tool::{Tool, tests_run_as_root};
use crate::windowed::check_script;

/// One connection stays open over the ways back; others come and go.
const POSTGRES: &str = r#"
export RETROVANE_HOME=$PWD/home PGHOST=$PWD PGUSER=postgres PGDATABASE=postgres
initdb -D data -A trust -U postgres --no-sync --no-locale > initdb.log
"$rv" live --name=pg --files=snapshot -- postgres -D data -k "$PWD" -c listen_addresses='' -c fsync=off \
    -c autovacuum=off > server.out 2> server.err &
session=$!
trap 'kill -KILL -- -$session $session 2> /dev/null || true' EXIT
until pg_isready -q; do kill -0 $session; sleep 0.05; done
psql -q -c 'create table rows(n int)' -c 'insert into rows select generate_series(1, 1000)'
mkfifo asked
psql -qAt < asked > answers 2>&1 &
exec 5> asked
lines=0
ask() { echo "$1" >&5; lines=$((lines + 1)); until [ "$(wc -l < answers)" -ge $lines ]; do kill -0 $session; sleep 0.05; done; }
ask 'select pg_backend_pid();'
backend=$(head -1 answers)
ask 'select count(*) from rows;'
"$rv" ctl "$backend" checkpoint
"$rv" ctl "$backend" replay 0 > replayed
psql -qAt -c 'insert into rows select generate_series(1, 500)' -c 'select count(*) from rows'
! "$rv" ctl "$backend" replay 0 2> refused
sleep 0.2
"$rv" ctl "$backend" rollback 0
psql -qAt -c 'select count(*) from rows'
ask 'insert into rows values (7) returning n;'
ask 'select count(*), sum(n) from rows;'
tail -n +2 answers
exec 5>&-
kill -INT "$(head -1 data/postmaster.pid)"
code=0; wait $session || code=$?
echo "ended with $code"
"#;

const PRINTED: &str =
    "checkpoint 0\n1500\nthe program goes on from checkpoint 0\n1000\n1000\n7\n1001|500507\nended with 0\n";

/// PostgreSQL with all its processes: memory, files and the open connection.
pub fn check_postgres(tool: &Tool) -> TestResult {
    // It refuses to run as root.
    let user = if tests_run_as_root() { User::Nobody } else { User::Current };
    check_script(tool, user, POSTGRES, &|text| text == PRINTED)
}

/// Ten thousand keys are set and gone back behind, by clients that have left and by one that
/// stays; another one is there all the time. Data are compared by Redis itself.
const REDIS: &str = r#"
export RETROVANE_HOME=$PWD/home
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$rv" live --name=it -- redis-server --port $port --save '' --appendonly no --enable-debug-command yes \
    > server.out 2> server.err &
session=$!
trap 'kill -KILL $session 2> /dev/null || true' EXIT
cli() { redis-cli -p $port "$@"; }
until cli ping 2> /dev/null | grep -q PONG; do kill -0 $session; sleep 0.05; done
exec 5<> /dev/tcp/127.0.0.1/$port 6<> /dev/tcp/127.0.0.1/$port
ask() { printf '%s\r\n' "$1" >&5; IFS= read -r -t 60 -u 5 answer; [ "$answer" = "$2"$'\r' ]; }
keys() { awk -v round="$1" 'BEGIN { for (i = 0; i < 10000; i++) printf "SET %s:%d %d\r\n", round, i, i * 7 }'; }
all_set() { for _ in $(seq 10000); do IFS= read -r -t 60 -u 6 line; [ "$line" = $'+OK\r' ]; done; }
take() { "$rv" ctl it checkpoint | sed 's/checkpoint //'; }
for round in $(seq 5); do
    ask "SET live:$round $round" +OK
    before=$(cli debug digest)
    number=$(take)
    keys "left:$round" | cli --pipe > /dev/null
    after=$(cli debug digest)
    [ "$after" != "$before" ]
    "$rv" ctl it replay "$number" > /dev/null
    [ "$(cli debug digest)" = "$after" ]
    "$rv" ctl it rollback "$number" > /dev/null
    [ "$(cli debug digest)" = "$before" ]
    ask "GET live:$round" '$1'
    IFS= read -r -t 60 -u 5 answer
    number=$(take)
    keys "again:$round" >&6
    all_set
    after=$(cli debug digest)
    "$rv" ctl it rollback "$number" > /dev/null
    # What the connection sent is read again, and answered again.
    all_set
    [ "$(cli debug digest)" = "$after" ]
done
cli dbsize
cli shutdown nosave
code=0; wait $session || code=$?
echo "ended with $code"
"#;

/// Redis, whose data are compared as a whole.
pub fn check_redis_data(tool: &Tool) -> TestResult {
    check_script(tool, User::Current, REDIS, &|text| text == "50005\nended with 0\n")
}
