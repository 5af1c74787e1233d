//! Servers that nobody here wrote, each with a client: what they say, and the same twice.

use std::fs;

use suites::{Mode, Scratch, TestResult, Tool};

use crate::{call, failed, text};

/// Nodes, the programs that they need, and what they say.
pub struct Daemon {
    pub name: &'static str,
    pub needs: &'static [&'static str],
    description: &'static str,
    says: &'static [&'static str],
    /// A thread computes until a time has passed, which is never the same twice.
    is_preempted: bool,
}

const PLAIN: Daemon = Daemon { name: "", needs: &[], description: "", says: &[], is_preempted: false };

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
];

/// Runs it, and looks whether it is the same twice.
pub fn serves(tool: &Tool, daemon: &Daemon) -> TestResult {
    if tool.mode == Mode::Native {
        return Ok(());
    }
    let scratch = Scratch::new(&format!("lab-{}", daemon.name))?;
    let file = scratch.join("lab.toml");
    fs::write(&file, daemon.description).map_err(|error| error.to_string())?;
    let file = file.display().to_string();
    let outcome = call(tool, scratch.path(), &["run", &file])?;
    let said = text(&outcome.stdout);
    if outcome.code != 0 || !daemon.says.iter().all(|words| said.contains(words)) {
        return Err(failed(&format!("it should say {:?}", daemon.says), &outcome));
    }
    let check = call(tool, scratch.path(), &["check", "--twice", &file])?;
    let says_so = text(&check.stdout).contains("this run is not the same again");
    match says_so == daemon.is_preempted && (check.code == 0 || daemon.is_preempted) {
        true => Ok(()),
        false => Err(failed("two runs should be the same, or it is said that they cannot be", &check)),
    }
}
