//! The rows that are servers: how many requests per second a recorded server
//! answers, beside a native one.

use crate::rows::{REPLAY_OF_RECORDING, Row, Target, Work};

/// Shell scripts in one fresh directory. Besides `$IN` and `$SCALE` there are
/// `$PORT`, and `$AS`, which runs a command as nobody if this is root.
pub struct Server {
    pub needs: &'static str,
    pub prepare: &'static str,
    /// A program in the foreground with its arguments, for `exec`.
    pub start: &'static str,
    /// Ends with 0 when clients are answered; run again and again until then.
    pub is_ready: &'static str,
    /// Prints the count of requests per second; fails if one was not answered well.
    pub load: &'static str,
    /// The server's pid is in the file `pid`.
    pub stop: &'static str,
}

impl Server {
    /// A script that runs its arguments in the background until the load has been
    /// answered, and leaves the rate in the file `rate`. The server has a process
    /// group of its own, because some signal all of theirs; what fails kills it.
    pub fn driver(&self) -> String {
        let Server { needs: _, prepare: _, start: _, is_ready, load, stop } = self;
        format!(
            "setsid \"$@\" &\ntrap 'test $? = 0 || kill -KILL -$!' EXIT; trap 'exit 143' TERM\n\
             until {is_ready}; do kill -0 $!; done > ready 2>&1\n( {load} ) > rate\n{stop}\nwait $!"
        )
    }
}

const fn row(name: &'static str, record: f64, server: Server) -> Row {
    Row { name, work: Work::Server(server), target: Target::Rate { record, replay: REPLAY_OF_RECORDING } }
}

const fn redis(load: &'static str) -> Server {
    Server {
        needs: "redis-server",
        prepare: "",
        start: "redis-server --port $PORT --save '' --appendonly no",
        is_ready: "redis-cli -p $PORT ping | grep -q PONG",
        load,
        stop: "redis-cli -p $PORT shutdown nosave",
    }
}

/// Requests per second over SET and GET together, from the benchmark's two rates.
macro_rules! redis_load {
    ($options:literal) => {
        concat!(
            "redis-benchmark -p $PORT -t set,get -c 50 --csv ",
            $options,
            " > load; awk -F '\"' 'NR > 1 { s += 1 / $4; n++ } END { print n / s }' load"
        )
    };
}

const REDIS_WITH_IO_THREADS: Server = Server {
    start: "redis-server --port $PORT --save '' --appendonly no --io-threads 2",
    // On two processors that loop answers some 3,000 requests a second, also natively.
    ..redis(redis_load!("-n $((20000 / SCALE))"))
};

const WEB_IS_READY: &str = "curl -sf -o /dev/null http://127.0.0.1:$PORT/small";

const WEB_LOAD: &str = "wrk -t 1 -c 16 -d $((SCALE > 1 ? 1 : 4)) http://127.0.0.1:$PORT/small > load; \
                        ! grep -E 'Socket errors|Non-2xx' load >&2; awk '/^Requests.sec/ { print $2 }' load";

const NGINX: Server = Server {
    needs: "nginx",
    prepare: "mkdir -m 755 html; head -c 1000 /dev/zero | tr '\\0' x > html/small
cat > nginx.conf <<END
daemon off; worker_processes 1; pid nginx.pid; error_log stderr;
events { worker_connections 256; }
http { access_log off; sendfile on; server { listen 127.0.0.1:$PORT; root html; }
client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5; }
END",
    start: "nginx -p $PWD -c $PWD/nginx.conf -e stderr",
    is_ready: WEB_IS_READY,
    load: WEB_LOAD,
    stop: "kill -QUIT $(cat pid)",
};

/// Apache with one way to process requests and its sizes.
macro_rules! apache {
    ($mpm:literal, $sizes:literal) => {
        Server {
            needs: "apache2",
            prepare: concat!(
                "mkdir -m 755 html; head -c 1000 /dev/zero | tr '\\0' x > html/small\ncat > apache.conf <<END\n",
                "LoadModule mpm_",
                $mpm,
                "_module /usr/lib/apache2/modules/mod_mpm_",
                $mpm,
                ".so\n",
                "LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so\n",
                "ServerRoot $PWD\nDefaultRuntimeDir $PWD\nServerName localhost\nPidFile $PWD/httpd.pid\n",
                "Listen 127.0.0.1:$PORT\nErrorLog $PWD/error.log\nDocumentRoot $PWD/html\nUser nobody\nGroup nogroup\n",
                "MaxKeepAliveRequests 0\n",
                $sizes,
                "\nEND"
            ),
            start: "apache2 -DFOREGROUND -f $PWD/apache.conf",
            is_ready: WEB_IS_READY,
            load: WEB_LOAD,
            stop: "kill -TERM $(cat pid)",
        }
    };
}

/// Without fsync, which would measure the disk.
const POSTGRESQL: Server = Server {
    needs: "pgbench",
    prepare: "chmod 777 .; $AS $(ls -d /usr/lib/postgresql/*/bin | tail -n 1)/initdb -D data -A trust -U postgres > log",
    start: "$AS $(ls -d /usr/lib/postgresql/*/bin | tail -n 1)/postgres -D data -k $PWD -c listen_addresses= \
            -c fsync=off",
    is_ready: "pg_isready -q -h $PWD",
    load: "export PGHOST=$PWD PGUSER=postgres PGDATABASE=postgres; pgbench -i -q 2> init; \
           pgbench -n -c 4 -T $((SCALE > 1 ? 1 : 5)) > load 2> errors; grep -q 'failed transactions: 0 ' load; \
           awk '/^tps/ { print $3 }' load",
    stop: "kill -INT $(cat pid)",
};

pub const SERVER_ROWS: &[Row] = &[
    row("redis SET, GET", 0.7, redis(redis_load!("-n $((100000 / SCALE))"))),
    row("redis SET, GET, -P 16", 0.7, redis(redis_load!("-P 16 -n $((1000000 / SCALE))"))),
    // Its second thread looks for work in a loop without `pause`, and so does the first for its answer.
    row("redis SET, GET, io-threads 2", 0.6, REDIS_WITH_IO_THREADS),
    row("nginx, static file", 0.7, NGINX),
    row(
        "apache prefork",
        0.7,
        apache!("prefork", "StartServers 16\nMinSpareServers 16\nMaxSpareServers 20\nMaxRequestWorkers 20"),
    ),
    row("apache event", 0.5, apache!("event", "StartServers 2\nThreadsPerChild 25\nMaxRequestWorkers 50")),
    row("pgbench -c 4, no fsync", 0.6, POSTGRESQL),
];
