//! Servers of root's whose processes have another user: they go back with their connections
//! open, and are saved and replayed.

use crate::TestResult;
use crate::run::User;
use crate::tool::Tool;
use crate::windowed::check_script;

/// A test of this kind: its name, what it needs, how the server begins, and what is done.
#[derive(Clone, Copy)]
pub struct OtherUser {
    pub name: &'static str,
    pub needs: &'static [&'static str],
    begin: &'static str,
    then: &'static str,
    prints: &'static str,
}

/// How all scripts begin.
const BEGIN: &str = r#"
export RETROVANE_HOME=$PWD/home
chmod 755 . ..
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
session=
begin() {
    # Apache ends with its whole group.
    set -m
    "$rv" live --name=it -- "$@" > server.out 2> server.err &
    session=$!
    set +m
    trap 'kill -KILL -- -$session $session $(cat ./*.pid 2> /dev/null) 2> /dev/null || true' EXIT
}
"#;

/// A web server with workers whose user is nobody.
const WEB: &str = r#"
until curl -sf "http://127.0.0.1:$port/small" > /dev/null; do kill -0 $session; sleep 0.05; done
parent=$(cat ./*.pid)
# One that is made later shares memory, and is in the way of going back.
until [ "$(pgrep -u nobody -P "$parent" | wc -l)" -ge "${workers:-1}" ]; do kill -0 $session; sleep 0.05; done
worker=$(pgrep -u nobody -P "$parent" | head -1)
python3 -B "$tests/workloads/kept_connections.py" "$rv" "$worker" "$port"
"$rv" ctl "$worker" save "$PWD/saved" > /dev/null
kill -"$stop" "$parent"
code=0; wait $session || code=$?
echo "ended with $code"
"$rv" replay -q saved > /dev/null < /dev/null
echo "replayed"
"#;

const WEB_PRINTED: &str = "no connection was lost, and every answer was right\nended with 0\nreplayed\n";

const NGINX: &str = r#"
. "$tests/workloads/nginx.sh"
nginx_files 2 "$port" 'keepalive_requests 1000000;'
sed -i '1i user nobody nogroup;' nginx.conf
chmod 755 html
stop=QUIT
begin nginx -p "$PWD" -c "$PWD/nginx.conf" -e stderr
"#;

macro_rules! apache {
    ($mpm:literal, $lines:literal) => {
        concat!(
            ". \"$tests/workloads/apache.sh\"\nstop=TERM\n",
            "apache_files ",
            $mpm,
            " \"$port\" $'User nobody\\nGroup nogroup\\n",
            $lines,
            "'\nbegin apache2 -DFOREGROUND -f \"$PWD/apache.conf\"\n"
        )
    };
}

/// The session is root's, the server's user is nobody.
const POSTGRES: &str = r#"
as_nobody="setpriv --reuid=nobody --regid=nogroup --clear-groups"
mkdir -m 755 base
chown nobody base
(cd base && $as_nobody initdb -D data -A trust -U postgres --no-sync --no-locale > ../initdb.log)
cd base
begin $as_nobody postgres -D data -k "$PWD" -c listen_addresses='' -c fsync=off -c autovacuum=off
until pg_isready -q -h "$PWD"; do kill -0 $session; sleep 0.05; done
"#;

const TRANSACTION: &str = r#"
python3 -B "$tests/workloads/transaction.py" "$rv" "$PWD/.s.PGSQL.5432"
kill -INT "$(head -1 data/postmaster.pid)"
code=0; wait $session || code=$?
echo "ended with $code"
"#;

const TRANSACTION_PRINTED: &str = "CREATE TABLE, I
BEGIN, T
INSERT 0 1, T
checkpoint 0
INSERT 0 1, T
2, SELECT 1, T
replayed: INSERT 0 1, T
3, SELECT 1, T
rolled back
again: INSERT 0 1, T
again: 2, SELECT 1, T
again: INSERT 0 1, T
again: 3, SELECT 1, T
COMMIT, I
3|6, SELECT 1, I
another: 3|6, SELECT 1, I
ended with 0
";

const WEB_NEEDS: &[&str] = &["apache2", "curl", "python3", "pgrep"];

const WEB_SERVER: OtherUser =
    OtherUser { name: "", needs: WEB_NEEDS, begin: "", then: WEB, prints: WEB_PRINTED };

impl OtherUser {
    pub const ALL: &[OtherUser] = &[
        OtherUser {
            name: "other_user::apache_prefork",
            begin: concat!("workers=4\n", apache!("prefork", "StartServers 4\\nMaxRequestWorkers 4")),
            ..WEB_SERVER
        },
        OtherUser {
            name: "other_user::apache_worker",
            begin: apache!("worker", "StartServers 1\\nThreadsPerChild 4\\nMaxRequestWorkers 4"),
            ..WEB_SERVER
        },
        OtherUser {
            name: "other_user::apache_event",
            begin: apache!("event", "StartServers 1\\nThreadsPerChild 4\\nMaxRequestWorkers 4"),
            ..WEB_SERVER
        },
        OtherUser {
            name: "other_user::nginx",
            needs: &["nginx", "curl", "python3", "pgrep"],
            begin: NGINX,
            ..WEB_SERVER
        },
        OtherUser {
            name: "other_user::postgresql",
            needs: &["postgres", "initdb", "pg_isready", "setpriv", "python3"],
            begin: POSTGRES,
            then: TRANSACTION,
            prints: TRANSACTION_PRINTED,
        },
    ];

    pub fn check(&self, tool: &Tool) -> TestResult {
        let script = [BEGIN, self.begin, self.then].concat();
        check_script(tool, User::Current, &script, &|text| text == self.prints)
    }
}
