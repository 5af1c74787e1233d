//! Servers that nobody here wrote, each with a client: what they say, and the same twice.

use std::fs;
use std::process::Command;
use std::time::Duration;

use suites::{Mode, Scratch, TestResult, Tool, User, in_workspace, run};

use crate::{call, failed, text};

const REPLAY_MAX: Duration = Duration::from_secs(120);

/// Nodes, the programs that they need, and what they say.
pub struct Daemon {
    pub name: &'static str,
    pub needs: &'static [&'static str],
    /// They take the rights of other users.
    pub as_root: bool,
    /// A command of the shell that makes what they need, in the folder that the description calls `FOLDER`; its `LAB` is
    /// tests/lab.
    pub prepare: &'static str,
    pub description: &'static str,
    pub says: &'static [&'static str],
    /// A thread computes until a time has passed, which is never the same twice.
    pub is_preempted: bool,
}

pub const PLAIN: Daemon = Daemon {
    name: "",
    needs: &[],
    as_root: false,
    prepare: "",
    description: "",
    says: &[],
    is_preempted: false,
};

pub const DAEMONS: &[Daemon] = &[
    Daemon {
        name: "php",
        needs: &["php", "curl"],
        description: r#"
            [node.server]
            command = ["sh", "-c", "echo '<?php echo \"hello \", $_GET[\"n\"], \" \", date(\"c\"), PHP_EOL;' > r.php; php -S 0.0.0.0:80 r.php"]
            [node.client]
            command = ["sh", "-c", "sleep 1; for i in 1 2; do curl -s http://server/x?n=$i; done"]
        "#,
        says: &["client | hello 2 2026-01-01T00:00:01+00:00"],
        ..PLAIN
    },
    // Its threads sleep until a time has passed, by the monotonic clock.
    Daemon {
        name: "ruby",
        needs: &["ruby"],
        description: r#"
            [node.server]
            command = ["ruby", "-rsocket", "-e", "s = TCPServer.new(80); loop { Thread.new(s.accept) { |c| l = c.gets; sleep 0.1; c.puts l.upcase; c.close } }"]
            [node.client]
            command = ["ruby", "-rsocket", "-e", "sleep 1; 5.times.map { |i| Thread.new { s = TCPSocket.new('server', 80); s.puts \"hi #{i}\"; puts s.read } }.each(&:join)"]
        "#,
        says: &["client | HI 0", "client | HI 4", "client | * ended with 0"],
        ..PLAIN
    },
    Daemon {
        name: "ruby_that_computes_until_a_time",
        needs: &["ruby"],
        description: r#"
            preempts_after = "100ms"
            [node.one]
            command = ["ruby", "-rtimeout", "-e", "begin; Timeout.timeout(1) { i = 0; loop { i += 1 } }; rescue Timeout::Error; puts 'over'; end"]
        "#,
        says: &["was preempted, which computed at", "one | over", "one | * ended with 0"],
        is_preempted: true,
        ..PLAIN
    },
    // Its schedulers wait for one another in circles, and by polls; its nodes find each other by a daemon that they start.
    Daemon {
        name: "erlang",
        needs: &["erl"],
        description: r#"
            [node.server]
            command = ["erl", "-noshell", "-sname", "a", "-setcookie", "x", "-eval", "register(doubles, self()), F = fun L() -> receive {From, N} -> From ! {ok, N * 2}, L() after 60000 -> ok end end, F(), init:stop()."]
            [node.client]
            command = ["erl", "-noshell", "-sname", "b", "-setcookie", "x", "-eval", "timer:sleep(30000), pong = net_adm:ping('a@server'), [begin {doubles, 'a@server'} ! {self(), N}, receive {ok, M} -> io:format(\"~p -> ~p~n\", [N, M]) end end || N <- lists:seq(1, 3)], init:stop()."]
            [[lan]]
            delay = "1ms"
        "#,
        says: &["client | 1 -> 2", "client | 3 -> 6", "client | * ended with 0"],
        ..PLAIN
    },
    // A thread that waits in a circle is preempted at the same state each time.
    Daemon {
        name: "circle",
        needs: &["cc"],
        prepare: "cc -O0 -pthread -o circle $LAB/circle.c",
        description: r#"
            clock = "virtual"
            cpu = "none"
            [node.one]
            command = ["FOLDER/circle"]
        "#,
        says: &["20 of 20", "one | * ended with 0"],
        ..PLAIN
    },
    Daemon {
        name: "haproxy",
        needs: &["haproxy", "python3", "curl"],
        description: r#"
            [node.web]
            count = 2
            command = ["sh", "-c", "hostname > index.html; python3 -m http.server 80 2>/dev/null"]
            [node.proxy]
            command = ["sh", "-c", "printf 'defaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\nfrontend f\n bind :80\n default_backend b\nbackend b\n balance roundrobin\n server w1 10.0.0.1:80 check\n server w2 10.0.0.2:80 check\n' > h.cfg; sleep 1; haproxy -f h.cfg"]
            [node.client]
            command = ["sh", "-c", "sleep 6; for i in 1 2 3 4; do curl -s http://proxy/; done"]
        "#,
        says: &["client | web-1", "client | web-2", "client | * ended with 0"],
        ..PLAIN
    },
    Daemon {
        name: "mosquitto",
        needs: &["mosquitto", "mosquitto_pub", "mosquitto_sub"],
        description: r#"
            [node.broker]
            command = ["sh", "-c", "printf 'listener 1883\nallow_anonymous true\n' > m.conf; mosquitto -c m.conf"]
            [node.sub]
            command = ["sh", "-c", "sleep 1; mosquitto_sub -h broker -t a/b -C 3"]
            [node.pub]
            command = ["sh", "-c", "sleep 2; for i in 1 2 3; do mosquitto_pub -h broker -t a/b -m msg$i; sleep 1; done"]
        "#,
        says: &["sub    | msg3", "sub    | * ended with 0"],
        ..PLAIN
    },
    Daemon {
        name: "rsync",
        needs: &["rsync"],
        description: r#"
            [node.server]
            command = ["sh", "-c", "mkdir data; for i in 1 2 3; do head -c 100000 /dev/urandom > data/f$i; done; printf 'use chroot = no\n[d]\npath = /mnt/data\n' > r.conf; rsync --daemon --no-detach --config r.conf"]
            [node.client]
            command = ["sh", "-c", "sleep 2; rsync -a rsync://server/d/ got/; ls got | wc -l; stat -c %s got/f3"]
        "#,
        says: &["client | 3", "client | 100000", "client | * ended with 0"],
        ..PLAIN
    },
    Daemon {
        name: "git",
        needs: &["git"],
        description: r#"
            [node.server]
            command = ["sh", "-c", "export HOME=/mnt; git init -q --bare r.git; touch r.git/git-daemon-export-ok; git daemon --reuseaddr --base-path=/mnt --enable=receive-pack"]
            [node.client]
            command = ["sh", "-c", "export HOME=/mnt; sleep 2; git config --global user.email a@b; git config --global user.name n; git clone -q git://server/r.git w; cd w; echo hi > f; git add f; git commit -qm one; git push -q origin HEAD:main; git ls-remote origin"]
        "#,
        says: &["refs/heads/main", "client | * ended with 0"],
        ..PLAIN
    },
    Daemon {
        name: "memcached",
        needs: &["memcached", "perl"],
        description: r#"
            [node.server]
            command = ["memcached", "-u", "root", "-t", "4"]
            [node.client]
            command = ["perl", "-MIO::Socket::INET", "-e", "sleep 1; my $s = IO::Socket::INET->new('server:11211') or die $!; for my $i (1..50) { print $s \"set k$i 0 0 2\\r\\nhi\\r\\n\"; my $l = <$s>; } print $s \"get k7\\r\\n\"; print scalar <$s>;"]
        "#,
        says: &["client | VALUE k7 0 2", "client | * ended with 0"],
        ..PLAIN
    },
    // Its processes share memory and semaphores, and wake each other by signals.
    Daemon {
        name: "postgres",
        needs: &["/usr/lib/postgresql", "psql", "setpriv"],
        as_root: true,
        description: r#"
            [node.server]
            command = ["sh", "-c", "PATH=$PATH:$(echo /usr/lib/postgresql/*/bin); chmod 777 /mnt; export TMPDIR=/tmp LC_ALL=C; run='setpriv --reuid postgres --regid postgres --clear-groups'; $run initdb -D /mnt/db -A trust >/dev/null; echo \"host all all all trust\" >> /mnt/db/pg_hba.conf; exec $run postgres -D /mnt/db -k /mnt -c listen_addresses='*'"]
            [node.client]
            command = ["sh", "-c", "b=$(echo /usr/lib/postgresql/*/bin); sleep 5; until pg_isready -q -h server; do sleep 1; done; psql -h server -U postgres -c 'create table t(a int); insert into t select generate_series(1,1000); select sum(a), now() from t'; $b/pgbench -h server -U postgres -i -s 1 -q postgres 2>&1 | grep done; $b/pgbench -h server -U postgres -c 4 -j 2 -t 20 postgres | grep processed"]
        "#,
        says: &["client |  500500 | 2026-01-01 00:00:0", "processed: 80/80", "client | * ended with 0"],
        ..PLAIN
    },
    Daemon {
        name: "ssh",
        needs: &["/usr/sbin/sshd", "ssh", "ssh-keygen", "scp", "curl"],
        as_root: true,
        description: r#"
            [node.server]
            command = ["sh", "-c", "mkdir -p /run/sshd; ssh-keygen -q -t ed25519 -N '' -f /mnt/hk; ssh-keygen -q -t ed25519 -N '' -f /mnt/uk; mkdir -p /mnt/ak; cp uk.pub ak/keys; chmod 700 ak; chmod 600 ak/keys; (cd /mnt; python3 -m http.server 80 2>/dev/null) & exec /usr/sbin/sshd -D -e -h /mnt/hk -o PermitRootLogin=yes -o StrictModes=no -o UsePAM=no -o AuthorizedKeysFile=/mnt/ak/keys"]
            [node.client]
            command = ["sh", "-c", "sleep 3; curl -s http://server/uk > uk; chmod 600 uk; for i in 1 2; do ssh -i uk -o StrictHostKeyChecking=no -o UserKnownHostsFile=/mnt/kh root@server 'hostname; echo over ssh; cat' < /etc/hostname; done; head -c 1000000 /dev/zero | ssh -i uk -o StrictHostKeyChecking=no -o UserKnownHostsFile=/mnt/kh root@server wc -c; scp -q -i uk -o StrictHostKeyChecking=no -o UserKnownHostsFile=/mnt/kh root@server:/etc/passwd p; wc -l < p"]
        "#,
        says: &["client | 1000000", "client | * ended with 0"],
        ..PLAIN
    },
    Daemon {
        name: "java",
        needs: &["java", "javac"],
        prepare: "javac -d . $LAB/Pages.java",
        description: r#"
            [node.server]
            command = ["java", "-cp", "FOLDER", "Pages"]
            [node.client]
            command = ["java", "-cp", "FOLDER", "Pages", "client"]
        "#,
        says: &["client | page /0", "client | page /9", "client | * ended with 0"],
        ..PLAIN
    },
    Daemon {
        name: "apache_prefork",
        needs: &["apache2", "ab", "curl"],
        as_root: true,
        description: r#"
            [node.server]
            command = ["sh", "-c", "echo hello > index.html; M=/usr/lib/apache2/modules; printf 'ServerName server\nListen 80\nPidFile /mnt/p\nErrorLog /dev/stderr\nLoadModule mpm_prefork_module /usr/lib/apache2/modules/mod_mpm_prefork.so\nLoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so\nLoadModule dir_module /usr/lib/apache2/modules/mod_dir.so\nDocumentRoot /mnt\nUser www-data\nGroup www-data\n' > a.conf; chmod 755 /mnt; exec apache2 -f /mnt/a.conf -DFOREGROUND"]
            [node.client]
            command = ["sh", "-c", "sleep 3; curl -s http://server/; ab -q -n 200 -c 10 http://server/ | grep -E 'Complete|Failed'"]
        "#,
        says: &["client | hello", "Failed requests:        0", "client | * ended with 0"],
        ..PLAIN
    },
    Daemon {
        name: "apache_event",
        needs: &["apache2", "ab", "curl"],
        as_root: true,
        description: r#"
            [node.server]
            command = ["sh", "-c", "echo hello > index.html; M=/usr/lib/apache2/modules; printf 'ServerName server\nListen 80\nPidFile /mnt/p\nErrorLog /dev/stderr\nLoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so\nLoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so\nLoadModule dir_module /usr/lib/apache2/modules/mod_dir.so\nDocumentRoot /mnt\nUser www-data\nGroup www-data\n' > a.conf; chmod 755 /mnt; exec apache2 -f /mnt/a.conf -DFOREGROUND"]
            [node.client]
            command = ["sh", "-c", "sleep 3; curl -s http://server/; ab -q -n 200 -c 10 http://server/ | grep -E 'Complete|Failed'"]
        "#,
        says: &["client | hello", "Failed requests:        0", "client | * ended with 0"],
        ..PLAIN
    },
    Daemon {
        name: "nginx_behind_haproxy",
        needs: &["nginx", "haproxy", "ab", "curl"],
        as_root: true,
        description: r#"
            [node.web]
            count = 2
            command = ["sh", "-c", "hostname > index.html; chmod 755 /mnt; printf 'worker_processes 2; daemon off; pid /mnt/p; error_log stderr; events {} http { access_log off; client_body_temp_path /mnt/b; proxy_temp_path /mnt/x; fastcgi_temp_path /mnt/f; uwsgi_temp_path /mnt/u; scgi_temp_path /mnt/s; server { listen 80 reuseport; root /mnt; } }' > n.conf; exec nginx -c /mnt/n.conf"]
            [node.proxy]
            command = ["sh", "-c", "printf 'global\n nbthread 2\ndefaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\nfrontend f\n bind :80\n default_backend b\nbackend b\n balance roundrobin\n server w1 10.0.0.1:80 check\n server w2 10.0.0.2:80 check\n' > h.cfg; sleep 1; exec haproxy -f h.cfg"]
            [node.client]
            command = ["sh", "-c", "sleep 6; for i in 1 2 3 4; do curl -s http://proxy/; done; ab -q -n 200 -c 10 http://proxy/ | grep -E 'Complete|Failed'"]
        "#,
        says: &["client | web-1", "client | web-2", "Failed requests:        0", "client | * ended with 0"],
        ..PLAIN
    },
    Daemon {
        name: "redis_sentinels",
        needs: &["redis-server", "redis-cli"],
        description: r#"
            [node.r1]
            command = ["redis-server", "--port", "6379", "--protected-mode", "no", "--save", ""]
            [node.r2]
            command = ["sh", "-c", "sleep 1; exec redis-server --port 6379 --protected-mode no --save '' --replicaof 10.0.0.1 6379"]
            [node.s]
            count = 3
            command = ["sh", "-c", "sleep 2; printf 'port 26379\nprotected-mode no\nsentinel monitor m 10.0.0.1 6379 2\nsentinel down-after-milliseconds m 1000\nsentinel failover-timeout m 5000\n' > s.conf; exec redis-server s.conf --sentinel"]
            [node.client]
            command = ["sh", "-c", "sleep 6; redis-cli -h r1 set k v; sleep 20; redis-cli -h s-1 -p 26379 sentinel get-master-addr-by-name m; redis-cli -h r2 get k; redis-cli -h r2 set k w; redis-cli -h r2 role"]
            [[event]]
            at = "10s"
            do = "kill"
            node = "r1"
        "#,
        says: &[
            "client | 10.0.0.2",
            "client | v",
            "client | OK",
            "client | master",
            "client | * ended with 0",
        ],
        ..PLAIN
    },
    Daemon {
        name: "dnsmasq",
        needs: &["dnsmasq", "dig"],
        as_root: true,
        description: r#"
            [node.dns]
            command = ["dnsmasq", "--keep-in-foreground", "--no-resolv", "--no-hosts", "--address=/a.lab/10.1.2.3", "--bind-interfaces", "--listen-address=10.0.0.1", "--user=root", "--pid-file=/mnt/p", "--no-daemon"]
            [node.client]
            command = ["sh", "-c", "sleep 2; dig +short @10.0.0.1 a.lab; dig +tcp +short @10.0.0.1 a.lab; dig +short @10.0.0.1 -x 10.9.9.9; getent hosts dns"]
        "#,
        says: &["client | 10.1.2.3", "client | * ended with 0"],
        ..PLAIN
    },
    Daemon {
        name: "bind",
        needs: &["named", "dig"],
        as_root: true,
        description: r#"
            [node.dns]
            command = ["sh", "-c", "printf '$TTL 60\n@ SOA ns a 1 60 60 60 60\n@ NS ns\nns A 10.0.0.1\nwww A 10.1.2.3\n' > z; printf 'options { directory \"/mnt\"; recursion no; pid-file none; session-keyfile \"/mnt/sk\"; listen-on { any; }; }; controls {}; zone \"x.lab\" { type master; file \"/mnt/z\"; };' > n.conf; exec named -g -c /mnt/n.conf 2>/dev/null"]
            [node.client]
            command = ["sh", "-c", "sleep 3; dig +short @dns www.x.lab; dig +tcp +short @dns www.x.lab; dig @dns AXFR x.lab | grep -c IN"]
        "#,
        says: &["client | 10.1.2.3", "client | * ended with 0"],
        ..PLAIN
    },
    // It has all addresses, as does the lab's own resolver one of them.
    Daemon {
        name: "unbound",
        needs: &["unbound", "dig"],
        as_root: true,
        description: r#"
            [node.dns]
            command = ["sh", "-c", "printf 'server:\n interface: 0.0.0.0\n access-control: 10.0.0.0/8 allow\n chroot: \"\"\n username: \"\"\n do-daemonize: no\n num-threads: 2\n pidfile: \"/mnt/p\"\n directory: \"/mnt\"\n use-syslog: no\n local-zone: \"x.lab.\" static\n local-data: \"www.x.lab. A 10.1.2.3\"\n' > u.conf; exec unbound -c /mnt/u.conf"]
            [node.client]
            command = ["sh", "-c", "sleep 3; dig +short @dns www.x.lab; dig +tcp +short @dns www.x.lab"]
        "#,
        says: &["client | 10.1.2.3", "client | * ended with 0"],
        ..PLAIN
    },
    Daemon {
        name: "node_cluster",
        needs: &["node"],
        description: r#"
            [node.server]
            command = ["node", "LAB/cluster.js"]
            [node.client]
            command = ["node", "LAB/cluster.js", "client"]
        "#,
        says: &["client | page/0 page/1 page/2", "page/9", "client | * ended with 0"],
        ..PLAIN
    },
    Daemon {
        name: "asyncio",
        needs: &["python3"],
        description: r#"
            [node.server]
            command = ["python3", "LAB/lines.py"]
            [node.client]
            command = ["python3", "LAB/lines.py", "client"]
        "#,
        says: &["client | ['HI 0 4', 'HI 1 4'", "client | * ended with 0"],
        ..PLAIN
    },
    Daemon {
        name: "asio",
        needs: &["g++", "/usr/include/boost/asio.hpp"],
        prepare: "g++ -O1 -o echo $LAB/echo.cpp -pthread",
        description: r#"
            [node.server]
            command = ["FOLDER/echo"]
            [node.client]
            command = ["FOLDER/echo", "client"]
        "#,
        says: &["client | echo 0", "client | echo 9", "client | * ended with 0"],
        ..PLAIN
    },
    Daemon {
        name: "tls",
        needs: &["openssl", "curl"],
        description: r#"
            [node.server]
            command = ["sh", "-c", "openssl req -x509 -newkey rsa:2048 -nodes -keyout k -out c -days 9 -subj /CN=server 2>/dev/null; exec openssl s_server -accept 443 -key k -cert c -www -quiet"]
            [node.client]
            command = ["sh", "-c", "sleep 30; curl -sk https://server/ | grep -c Cipher; curl -skv https://server/ 2>&1 | grep -E 'SSL connection|expire'"]
        "#,
        says: &["SSL connection using TLSv1.3", "client | * ended with 0"],
        ..PLAIN
    },
    Daemon {
        name: "vsftpd",
        needs: &["vsftpd", "curl"],
        as_root: true,
        description: r#"
            [node.server]
            command = ["sh", "-c", "mkdir -p /mnt/ftp /mnt/e; echo data > /mnt/ftp/f; chmod 755 /mnt /mnt/ftp; printf 'listen=YES\nbackground=NO\nanonymous_enable=YES\nanon_root=/mnt/ftp\nsecure_chroot_dir=/mnt/e\nseccomp_sandbox=NO\n' > v.conf; exec vsftpd /mnt/v.conf"]
            [node.client]
            command = ["sh", "-c", "sleep 2; curl -s ftp://server/; curl -s ftp://server/f"]
        "#,
        says: &["client | data", "client | * ended with 0"],
        ..PLAIN
    },
    Daemon {
        name: "varnish",
        needs: &["varnishd", "python3", "curl"],
        as_root: true,
        description: r#"
            [node.web]
            command = ["sh", "-c", "echo hello > index.html; python3 -m http.server 80 2>/dev/null"]
            [node.cache]
            command = ["varnishd", "-F", "-a", ":80", "-b", "10.0.0.1:80", "-n", "/mnt/v", "-s", "malloc,10m", "-j", "none"]
            [node.client]
            command = ["sh", "-c", "sleep 20; for i in 1 2 3; do curl -si http://cache/ | grep -iE 'hello|^Age'; done"]
        "#,
        says: &["client | hello", "client | * ended with 0"],
        ..PLAIN
    },
    Daemon {
        name: "slapd",
        needs: &["slapd", "ldapadd", "ldapsearch"],
        description: r#"
            [node.server]
            command = ["sh", "-c", "mkdir -p db; printf 'include /etc/ldap/schema/core.schema\nmodulepath /usr/lib/ldap\nmoduleload back_mdb\ndatabase mdb\nmaxsize 10485760\nsuffix dc=x\nrootdn cn=r,dc=x\nrootpw s\ndirectory /mnt/db\n' > s.conf; exec slapd -f /mnt/s.conf -h ldap://0.0.0.0 -d 0"]
            [node.client]
            command = ["sh", "-c", "sleep 3; printf 'dn: dc=x\nobjectClass: dcObject\nobjectClass: organization\no: x\ndc: x\n' | ldapadd -x -H ldap://server -D cn=r,dc=x -w s; ldapsearch -x -LLL -H ldap://server -b dc=x"]
        "#,
        says: &["client | o: x", "client | * ended with 0"],
        ..PLAIN
    },
    Daemon {
        name: "nats",
        needs: &["nats-server", "nc"],
        description: r#"
            [node.server]
            command = ["nats-server"]
            [node.client]
            command = ["sh", "-c", "sleep 2; (printf 'CONNECT {}\\r\\nSUB a 1\\r\\nPUB a 2\\r\\nhi\\r\\nPING\\r\\n'; sleep 1) | timeout 3 nc server 4222 | grep -E 'MSG|hi|PONG'"]
        "#,
        says: &["client | MSG a 1 2", "client | PONG", "client | * ended with 0"],
        ..PLAIN
    },
    Daemon {
        name: "gunicorn",
        needs: &["gunicorn", "ab", "curl"],
        description: r#"
            [node.server]
            command = ["sh", "-c", "printf 'def app(e, s):\\n  s(\"200 OK\", [])\\n  return [b\"hello\\\\n\"]\\n' > w.py; exec gunicorn -w 3 -b 0.0.0.0:80 w:app"]
            [node.client]
            command = ["sh", "-c", "sleep 3; for i in 1 2 3; do curl -s http://server/; done; ab -q -n 50 -c 5 http://server/ | grep -E 'Complete|Failed'"]
        "#,
        says: &["client | hello", "Failed requests:        0", "client | * ended with 0"],
        ..PLAIN
    },
    Daemon {
        name: "lighttpd",
        needs: &["lighttpd", "ab", "curl"],
        description: r#"
            [node.server]
            command = ["sh", "-c", "echo hello > index.html; printf 'server.document-root=\"/mnt\"\nserver.port=80\nindex-file.names=(\"index.html\")\n' > l.conf; exec lighttpd -D -f l.conf"]
            [node.client]
            command = ["sh", "-c", "sleep 2; curl -s http://server/; ab -q -n 200 -c 10 http://server/ | grep -E 'Complete|Failed'"]
        "#,
        says: &["client | hello", "Failed requests:        0", "client | * ended with 0"],
        ..PLAIN
    },
];

/// Runs it, and looks whether it is the same twice.
pub fn serves(tool: &Tool, daemon: &Daemon) -> TestResult {
    if tool.mode == Mode::Native {
        return Ok(());
    }
    let scratch = Scratch::new(&format!("lab-{}", daemon.name))?;
    let programs = in_workspace("tests/lab").display().to_string();
    if !daemon.prepare.is_empty() {
        let mut shell = Command::new("sh");
        shell.args(["-c", daemon.prepare]).current_dir(scratch.path()).env("LAB", &programs);
        let made = shell.output().map_err(|error| format!("sh: {error}"))?;
        if !made.status.success() {
            return Err(format!("{}: {}", daemon.prepare, text(&made.stderr)));
        }
    }
    let dir = scratch.path().display().to_string();
    let description = daemon.description.replace("FOLDER", &dir).replace("LAB/", &format!("{programs}/"));
    let [file, ran] = ["lab.toml", "ran"].map(|name| scratch.join(name).display().to_string());
    fs::write(&file, description).map_err(|error| error.to_string())?;
    let outcome = call(tool, scratch.path(), &["run", "-o", &ran, &file])?;
    let said = text(&outcome.stdout);
    if outcome.code != 0 || !daemon.says.iter().all(|words| said.contains(words)) {
        return Err(failed(&format!("it should say {:?}", daemon.says), &outcome));
    }
    let words = ["--quiet".into(), "replay".into(), format!("{ran}/trace").into()];
    let replayed = run(tool.command(User::Current, scratch.path(), &words), REPLAY_MAX)?;
    if replayed.code != 0 {
        return Err(failed("its recording should replay", &replayed));
    }
    let check = call(tool, scratch.path(), &["check", "--twice", &file])?;
    let says_so = text(&check.stdout).contains("this run is not the same again");
    match says_so == daemon.is_preempted && (check.code == 0 || daemon.is_preempted) {
        true => Ok(()),
        false => Err(failed("two runs should be the same, or it is said that they cannot be", &check)),
    }
}
