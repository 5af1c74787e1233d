//! A server of several processes that share memory goes back as one.

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
