//! Servers: how each is started, loaded, stopped, and ends.

use suites::{Listens, Service};

const PLAIN: Service = Service::PLAIN;

const REDIS: Service = Service {
    needs: &["redis-server", "redis-benchmark"],
    stop: "redis-cli -p {port} shutdown nosave",
    ..PLAIN
};

const NGINX: Service = Service {
    needs: &["nginx", "ab", "wrk", "curl"],
    start: "nginx -p $PWD -c $PWD/nginx.conf -e stderr",
    load: "same http://127.0.0.1:{port}/small html/small; same http://127.0.0.1:{port}/large html/large
           ab_clean -n 2000 -c 8 http://127.0.0.1:{port}/small
           ab_clean -k -n 500 -c 4 http://127.0.0.1:{port}/large
           wrk_clean -t 2 -c 8 -d 1 http://127.0.0.1:{port}/small",
    stop: "kill -QUIT $(cat pid)",
    ..PLAIN
};

const APACHE: Service = Service {
    needs: &["apache2", "ab", "wrk", "curl"],
    start: "apache2 -DFOREGROUND -f $PWD/apache.conf",
    load: "same http://127.0.0.1:{port}/small html/small; same http://127.0.0.1:{port}/large html/large
           ab_clean -n 1000 -c 8 http://127.0.0.1:{port}/small
           ab_clean -k -n 300 -c 4 http://127.0.0.1:{port}/large
           wrk_clean -t 2 -c 8 -d 1 http://127.0.0.1:{port}/small",
    ..PLAIN
};

const POSTGRES: Service = Service {
    needs: &["postgres", "pgbench", "psql"],
    setup: "initdb -D data -A trust -U postgres --no-sync > initdb.log",
    start: "postgres -D data -k $PWD -c listen_addresses='' -c fsync=off",
    listens: Listens::Socket(".s.PGSQL.5432"),
    stop: "kill -INT $(cat pid)",
    ..PLAIN
};

/// A server of this suite in some language that echoes the path.
const ECHO: Service = Service {
    load: "says 'you asked for /x' curl -sSf http://127.0.0.1:{port}/x
           ab_clean -n 1000 -c 8 http://127.0.0.1:{port}/x
           wrk_clean -t 1 -c 4 -d 1 http://127.0.0.1:{port}/x",
    ..PLAIN
};

pub const SERVICES: &[Service] = &[
    Service {
        name: "redis",
        start: "redis-server --port {port} --save '' --appendonly no",
        load: "P={port}; redis_load -t set,get -n 20000 -c 20 -r 1000; redis_says OK set a 1; redis_says 2 incr a
               redis_load -t lpush,lpop,sadd,hset,zadd,mset -n 3000 -c 20; redis_says 2 get a",
        ..REDIS
    },
    Service {
        name: "redis_pipelined",
        start: "redis-server --port {port} --save '' --appendonly no",
        load: "P={port}; redis_load -t set,get -n 100000 -c 20 -P 16 -r 10000; redis_says OK set a 1; redis_says 1 get a",
        ..REDIS
    },
    Service {
        name: "redis_persistent",
        start: "redis-server --port {port} --save 3600 1 --appendonly yes --appendfsync everysec",
        load: "P={port}; redis_load -t set -n 5000 -c 8 -r 500; redis_says OK set a 1
               redis-cli -p $P bgsave; until redis-cli -p $P info persistence | grep -q '^rdb_bgsave_in_progress:0'; do :; done
               redis-cli -p $P bgrewriteaof; until redis-cli -p $P info persistence | grep -q '^aof_rewrite_in_progress:0' &&
               redis-cli -p $P info persistence | grep -q '^aof_rewrite_scheduled:0'; do :; done
               redis-check-rdb dump.rdb > check.log; redis_load -t get -n 2000 -c 8 -r 500; redis_says 1 get a",
        stop: "redis-cli -p {port} shutdown save; redis-check-rdb dump.rdb > check.log",
        ..REDIS
    },
    Service {
        name: "redis_io_threads",
        start: "redis-server --port {port} --save '' --io-threads 2 --io-threads-do-reads yes",
        load: "P={port}; redis_load -t set,get -n 5000 -c 20 -P 4; redis_says OK set a 1; redis_says 1 get a",
        stop: "kill -TERM $(cat pid)",
        slow: true,
        ..REDIS
    },
    Service { name: "nginx", setup: ". {workloads}/nginx.sh; nginx_files 1 {port}", ..NGINX },
    Service { name: "nginx_2_workers", setup: ". {workloads}/nginx.sh; nginx_files 2 {port}", ..NGINX },
    Service {
        name: "nginx_2_workers",
        setup: ". {workloads}/nginx.sh; nginx_files 2 {port}; chmod 755 . html",
        as_root: true,
        slow: true,
        ..NGINX
    },
    Service {
        name: "nginx_aio_threads",
        setup: ". {workloads}/nginx.sh; nginx_files 1 {port} 'aio threads; sendfile off; output_buffers 2 64k;'",
        slow: true,
        ..NGINX
    },
    Service {
        name: "nginx_reload",
        setup: ". {workloads}/nginx.sh; nginx_files 2 {port}",
        load: "ab_clean -n 500 -c 4 http://127.0.0.1:{port}/small; echo new > html/new
               sed -i 's/worker_processes 2/worker_processes 1/; s/root html;/root html; add_header Fresh yes;/' nginx.conf
               kill -HUP $(cat pid); until curl -sI http://127.0.0.1:{port}/new | grep -q '^Fresh: yes'; do :; done
               ab_clean -n 500 -c 4 http://127.0.0.1:{port}/small",
        slow: true,
        ..NGINX
    },
    Service {
        name: "apache_prefork",
        setup: ". {workloads}/apache.sh; apache_files prefork {port} 'StartServers 3\nMaxRequestWorkers 10'",
        ..APACHE
    },
    Service {
        name: "apache_worker",
        setup: ". {workloads}/apache.sh
                apache_files worker {port} 'StartServers 2\nThreadsPerChild 25\nMaxRequestWorkers 50'",
        slow: true,
        ..APACHE
    },
    Service {
        name: "apache_event",
        setup: ". {workloads}/apache.sh
                apache_files event {port} 'StartServers 2\nThreadsPerChild 25\nMaxRequestWorkers 50'",
        ..APACHE
    },
    Service {
        name: "apache_prefork",
        setup: ". {workloads}/apache.sh; chmod 755 .
                apache_files prefork {port} 'StartServers 2\nMaxRequestWorkers 6\nUser nobody\nGroup nogroup'",
        as_root: true,
        slow: true,
        ..APACHE
    },
    Service {
        name: "apache_event_cgi",
        setup: ". {workloads}/apache.sh; M=/usr/lib/apache2/modules
                apache_files event {port} \"LoadModule cgid_module $M/mod_cgid.so\nLoadModule alias_module $M/mod_alias.so
                ScriptAlias /cgi/ $PWD/cgi/\nStartServers 1\nThreadsPerChild 5\nMaxRequestWorkers 5\"",
        load: "says 'you asked for x=1' curl -sSf 'http://127.0.0.1:{port}/cgi/answer?x=1'
               ab_clean -n 100 -c 4 'http://127.0.0.1:{port}/cgi/answer?y=2'",
        slow: true,
        ..APACHE
    },
    Service {
        name: "apache_graceful_restart",
        setup: ". {workloads}/apache.sh
                apache_files event {port} 'StartServers 1\nThreadsPerChild 5\nMaxRequestWorkers 5'",
        load: "ab_clean -n 300 -c 4 http://127.0.0.1:{port}/small; kill -USR1 $(cat pid)
               until [ $(grep -c 'resuming normal operations' error.log) = 2 ]; do :; done
               ab_clean -n 300 -c 4 http://127.0.0.1:{port}/small",
        slow: true,
        ..APACHE
    },
    Service {
        name: "postgresql",
        load: "export PGHOST=$PWD PGUSER=postgres PGDATABASE=postgres; until pg_isready -q; do :; done
               pgbench -i -q -s 1 2> init.log; pgbench_load -c 4 -j 2 -t 50
               says 200 psql -Atc 'select count(*) from pgbench_history'
               says t psql -Atc 'select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)'",
        ..POSTGRES
    },
    Service {
        name: "postgresql_parallel_query",
        load: "export PGHOST=$PWD PGUSER=postgres PGDATABASE=postgres; until pg_isready -q; do :; done
               psql -qc 'create table t as select i, i % 100 as k from generate_series(1, 100000) i' -c 'analyze t'
               export PGOPTIONS='-c parallel_setup_cost=0 -c parallel_tuple_cost=0 -c min_parallel_table_scan_size=0'
               psql -Atc 'explain select k, sum(i) from t group by k' | grep -q 'Workers Planned'
               says '100|5000050000' psql -Atc 'select count(*), sum(s) from (select k, sum(i) s from t group by k) x'
               psql -qc 'vacuum full t' -c 'create index on t(k)'; says 1000 psql -Atc 'select count(*) from t where k = 7'",
        slow: true,
        ..POSTGRES
    },
    Service {
        name: "memcached",
        needs: &["memcached", "python3"],
        start: "memcached -l 127.0.0.1 -p {port} -U 0 -t 4",
        load: "python3 {workloads}/memcached_client.py {port} 4 500",
        ..PLAIN
    },
    Service {
        name: "node_http_and_worker_threads",
        needs: &["node", "ab", "wrk", "curl"],
        start: "node {workloads}/server.js {port}",
        load: "says 'you asked for /x' curl -sSf http://127.0.0.1:{port}/x
               says 500000500000 curl -sSf http://127.0.0.1:{port}/sum/1000000
               ab_clean -n 500 -c 8 http://127.0.0.1:{port}/x; ab_clean -n 200 -c 4 http://127.0.0.1:{port}/sum/10000
               wrk_clean -t 1 -c 4 -d 1 http://127.0.0.1:{port}/x",
        code: 3,
        ..PLAIN
    },
    Service {
        name: "node_cluster",
        needs: &["node", "ab", "curl"],
        start: "node {workloads}/cluster.js {port}",
        load: "says 'from a worker' curl -sSf http://127.0.0.1:{port}/
               ab_clean -n 500 -c 8 http://127.0.0.1:{port}/",
        slow: true,
        ..PLAIN
    },
    Service {
        name: "java_http",
        needs: &["java", "javac", "ab", "curl"],
        build: "javac -d . {workloads}/HttpServing.java",
        start: "java -Xmx128m -cp {built} HttpServing {port}",
        load: "says '0 /x' bash -c 'set -o pipefail; curl -sSf http://127.0.0.1:{port}/x | head -1'
               ab_clean -n 1000 -c 8 http://127.0.0.1:{port}/x",
        code: 143,
        ..PLAIN
    },
    Service {
        name: "go_http",
        needs: &["go", "ab", "wrk", "curl"],
        build: "GO111MODULE=off GOTOOLCHAIN=local go build -o http_server {workloads}/http_server.go",
        start: "{built}/http_server {port}",
        code: 5,
        ..ECHO
    },
    Service {
        name: "python_threading_http",
        needs: &["python3", "ab", "wrk", "curl"],
        start: "python3 {workloads}/threading_server.py {port}",
        ..ECHO
    },
    Service {
        name: "python_asyncio_http",
        needs: &["python3", "ab", "wrk", "curl"],
        start: "python3 {workloads}/asyncio_server.py {port}",
        load: "says \"$(for i in $(seq 1000); do printf /x; done | sha256sum | cut -d' ' -f1)\" curl -sSf http://127.0.0.1:{port}/x
               ab_clean -n 500 -c 8 http://127.0.0.1:{port}/x; wrk_clean -t 1 -c 4 -d 1 http://127.0.0.1:{port}/x",
        ..PLAIN
    },
];
