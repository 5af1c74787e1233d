//! Real programs that nobody changed: recorded, replayed, outputs and exit
//! codes equal. Each row of the table is a shell command in a fresh directory;
//! before the replay that directory and everything in it is gone.

use std::process::ExitCode;
use std::sync::Arc;

use suites::{Comparison, Program, Server, Surroundings, User, program_trials, quick_mode, suite_arguments};

const PLAIN: Program = Program::PLAIN;

/// A C project of 100 files with a makefile.
const C_PROJECT: &str = r#"
for i in $(seq 1 100); do
  cat > f$i.c <<END
#include <stdio.h>
#include <string.h>
struct s$i { int a[$i]; char name[32]; };
int f$i(int x) { struct s$i s; memset(&s, 0, sizeof s);
  for (int i = 0; i < $i; i++) s.a[i] = x * i; snprintf(s.name, 32, "f%d", x);
  int sum = 0; for (int i = 0; i < $i; i++) sum += s.a[i]; return sum + s.name[0]; }
END
  echo "int f$i(int);" >> all.h
done
{ echo '#include <stdio.h>'; echo '#include "all.h"'; echo 'int main(void) { long t = 0;'
  for i in $(seq 1 100); do echo "t += f$i($i);"; done
  echo 'printf("%ld\n", t); return 0; }'; } > main.c
printf 'OBJECTS := $(patsubst %%.c,%%.o,$(wildcard *.c))\nprogram: $(OBJECTS)\n\tgcc -o $@ $^\n%%.o: %%.c\n\tgcc -O1 -c -o $@ $<\n' > Makefile
"#;

/// Git with fixed names and dates, and without threads (which come later).
const GIT: &str = "
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=C GIT_COMMITTER_EMAIL=c@example.org
export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-02T00:00:00Z'
cat > gitconfig <<END
[pack]
	threads = 1
[index]
	threads = 1
[core]
	preloadIndex = false
[init]
	defaultBranch = main
[safe]
	directory = *
END
export GIT_CONFIG_GLOBAL=$PWD/gitconfig
";

const TREE: &str = "
for d in a b c; do mkdir -p tree/$d/x/y; for i in $(seq 1 40); do
  seq $i $((i * 20)) > tree/$d/file$i; done; ln -s ../file1 tree/$d/x/link; done
find tree -exec touch -h -d '2020-02-02 02:02:02' {} +
";

const PROGRAMS: &[Program] = &[
    Program { name: "ls_recursive", needs: &["ls"], command: "ls -lR {usr} 2>&1; test $? -le 1", ..PLAIN },
    Program {
        name: "pipeline",
        needs: &["find", "sort"],
        setup: TREE,
        command: "find tree -type f | sort | uniq | wc -l; find tree -name 'file1*' | sort -r | head -5; \
                  cat tree/*/file3* | sort -n | uniq -c | sort -rn | tail -3",
        ..PLAIN
    },
    Program {
        name: "tar_gzip",
        needs: &["tar", "gzip"],
        setup: TREE,
        command: "tar cf - --sort=name tree | gzip -n9 > t.tar.gz && gzip -l t.tar.gz && \
                  mkdir out && tar xzf t.tar.gz -C out && diff -r tree out/tree && md5sum t.tar.gz && \
                  tar tzvf t.tar.gz | wc -l",
        ..PLAIN
    },
    Program {
        name: "bash_features",
        needs: &["bash"],
        command: r#"
set -u
x=$( (echo sub; (echo deeper)) | tr a-z A-Z ); echo "$x"
cat <<END | sed 's/^/> /'
here $((6 * 7)) document
END
trap 'echo trapped TERM' TERM; kill -TERM $$; trap 'echo bye' EXIT
f() { local v=$1; [ "$v" -gt 0 ] && f $((v - 1)); echo -n "$v "; }; f 5; echo
for i in 1 2 3; do (exit $i); echo "status $?"; done
echo a b c | { read -r p q; echo "$q $p"; }
diff <(seq 3) <(seq 4); echo "diff $?"
declare -A m=([one]=1 [two]=2); echo "${m[two]} ${#m[@]}"
coproc tr a-z A-Z; echo through coproc >&"${COPROC[1]}"; eval "exec ${COPROC[1]}>&-"; cat <&"${COPROC[0]}"; wait
[[ abc =~ ^a(.)c$ ]] && echo "${BASH_REMATCH[1]}"; printf '%05.1f|%-5s|\n' 3.14159 x
exit 7
"#,
        code: 7,
        ..PLAIN
    },
    Program {
        name: "bash_job_control",
        needs: &["bash"],
        command: r#"
set -m
mkfifo gate
cat gate > got & job=$!
kill -STOP %1; wait -f -n 2>/dev/null & kill %2 2>/dev/null
kill -CONT %1; echo through the gate > gate; wait $job; echo "job ended with $?"; cat got
(exit 3) & wait $!; echo "background $?"
sleep 100 & kill $!; wait $! 2>/dev/null; echo "killed $?"
"#,
        comparison: Comparison::ExitCode,
        ..PLAIN
    },
    Program {
        name: "bash_signals_between_processes",
        needs: &["bash"],
        command: r#"
mkfifo ready
(trap 'echo child got USR1; exit 5' USR1; echo > ready; while :; do sleep 0.05; done) & child=$!
read -r _ < ready
kill -USR1 $child; wait $child; echo "child ended with $?"
"#,
        ..PLAIN
    },
    Program {
        name: "dash_script",
        needs: &["dash"],
        command: "exec dash -c 'i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; echo $i; \
                  echo a | (read x; echo got $x); ls / > /dev/null; wait; exit 3'",
        code: 3,
        ..PLAIN
    },
    Program {
        name: "make_100_files",
        needs: &["make", "gcc"],
        setup: C_PROJECT,
        // Two jobs print in an order that chance decides: only the result is shown.
        command: "make -j2 > log 2>&1 && wc -l < log && ./program && touch f7.c && make -j2 | wc -l",
        ..PLAIN
    },
    Program {
        name: "gcc_optimised",
        needs: &["gcc"],
        setup: C_PROJECT,
        command: "for i in 1 2 3 4 5; do cat f$i.c; done > big.c; gcc -O2 -Wall -g -o big.o -c big.c && \
                  gcc -O2 -S -o - f50.c | md5sum; gcc -c absent.c; echo $?",
        ..PLAIN
    },
    Program {
        name: "gxx_optimised",
        needs: &["g++"],
        setup: "cat > m.cpp <<'END'\n#include <algorithm>\n#include <iostream>\n#include <map>\n#include <string>\n#include <vector>\n\
                int main() { std::map<std::string, std::vector<int>> m; for (int i = 0; i < 1000; i++) m[std::to_string(i % 37)].push_back(i);\n\
                for (auto &[k, v] : m) std::sort(v.rbegin(), v.rend()); std::cout << m.size() << ' ' << m[\"5\"][0] << std::endl;\n\
                try { m.at(\"absent\"); } catch (const std::exception &e) { std::cout << \"caught\" << std::endl; } }\nEND",
        command: "g++ -O2 -std=c++17 -o m m.cpp && ./m",
        ..PLAIN
    },
    Program {
        name: "git_work",
        needs: &["git"],
        setup: TREE,
        preamble: GIT,
        command: "git init -q r && cd r && cp -r ../tree . && git add . && git commit -qm first && \
                  echo change >> tree/a/file1 && git commit -qam second && git log --stat --format='%H %s' && \
                  git gc -q && git count-objects && git clone -q . ../clone && cd ../clone && \
                  git log --oneline && git status --short && git diff HEAD~1 | wc -l && git fsck",
        ..PLAIN
    },
    Program {
        name: "python_imports",
        needs: &["python3"],
        command: "exec python3 -c 'import abc,argparse,array,ast,base64,bisect,bz2,calendar,codecs,collections,\
                  configparser,contextlib,copy,csv,datetime,decimal,difflib,email,enum,fnmatch,fractions,functools,\
                  glob,gzip,hashlib,heapq,html,http.client,inspect,io,itertools,json,logging,math,mimetypes,\
                  operator,os,pathlib,pickle,platform,pprint,random,re,shutil,socket,sqlite3,ssl,statistics,string,\
                  struct,subprocess,tarfile,tempfile,textwrap,time,traceback,types,unittest,urllib.request,uuid,\
                  xml.etree.ElementTree,zipfile,zlib; import sys; print(len(sys.modules) > 100)'",
        ..PLAIN
    },
    Program {
        name: "python_random_and_time",
        needs: &["python3"],
        command: "exec python3 -c 'import os,random,time,uuid,tempfile; print(time.time(), random.random(), \
                  uuid.uuid4(), os.getpid(), id(object()), hash(\"x\"), tempfile.mkdtemp(), os.urandom(8)); \
                  print({str(i) for i in range(20)})'",
        comparison: Comparison::ExitCode,
        ..PLAIN
    },
    Program {
        name: "python_subprocess",
        needs: &["python3"],
        command: "exec python3 -c 'import subprocess as s; print(s.run([\"sh\",\"-c\",\"cat; exit 3\"], \
                  input=b\"in\", capture_output=True)); print(s.check_output(\"echo $((1+1)) | tr 2 x\", shell=True)); \
                  p = s.Popen([\"sleep\",\"100\"]); p.terminate(); print(p.wait())'",
        ..PLAIN
    },
    Program {
        name: "python_sqlite",
        needs: &["python3"],
        command: "exec python3 -c 'import sqlite3; c = sqlite3.connect(\"d.db\"); \
                  c.execute(\"create table t(a integer primary key, b text)\"); \
                  c.executemany(\"insert into t(b) values (?)\", [(str(i),) for i in range(5000)]); c.commit(); \
                  print(c.execute(\"select count(*), sum(length(b)), max(b) from t\").fetchall())'",
        ..PLAIN
    },
    Program {
        name: "python_urllib",
        needs: &["python3"],
        command: "exec python3 -c 'import urllib.request as u, urllib.error, hashlib; \
                  b = \"http://127.0.0.1:{port}/\"; print(u.urlopen(b + \"x\").read()); \
                  print(hashlib.md5(u.urlopen(b + \"large\").read()).hexdigest())\ntry: u.urlopen(b + \"absent\")\n\
                  except urllib.error.HTTPError as e: print(e.code)'",
        ..PLAIN
    },
    Program {
        name: "python_uncaught_exception",
        needs: &["python3"],
        command: "exec python3 -c 'import sys; print(\"out\"); raise SystemExit(\"message to stderr\")'",
        code: 1,
        ..PLAIN
    },
    Program {
        name: "perl_script",
        needs: &["perl"],
        setup: TREE,
        command: r#"exec perl -MFile::Find -MPOSIX -e 'my %h; find({wanted => sub { $h{$_}++ if -f }, no_chdir => 0}, "tree");
            print join(",", map {"$_=$h{$_}"} (sort keys %h)[0..4]), "\n"; local $SIG{ALRM} = sub { die "alarm\n" };
            eval { alarm 1; select(undef,undef,undef,5); }; print "got $@"; open(my $p, "-|", "echo piped") or die; print <$p>;
            my $pid = fork; exit 4 if !$pid; waitpid $pid, 0; print $? >> 8, "\n"; exit 2'"#,
        code: 2,
        ..PLAIN
    },
    Program {
        name: "awk_script",
        needs: &["awk"],
        setup: TREE,
        command: "cat tree/*/file* | awk '{ s[$1 % 7] += $1 } END { for (i = 0; i < 7; i++) print i, s[i]; \
                  \"echo from the shell\" | getline x; print x }'",
        ..PLAIN
    },
    Program {
        name: "sed_script",
        needs: &["sed"],
        setup: TREE,
        command: "sed -n '5,9p;s/^1\\(.\\)$/<\\1>/p' tree/a/file30; sed -i 's/2/two/g' tree/b/file5 && md5sum tree/b/file5",
        ..PLAIN
    },
    Program {
        name: "sqlite_100000_inserts",
        needs: &["sqlite3"],
        setup: "{ echo 'create table t(a integer primary key, b text); begin;'; for i in $(seq 1 100000); do \
                echo \"insert into t(b) values ('row $i');\"; done; echo 'commit; select count(*), sum(length(b)) from t;'; } > in.sql",
        command: "exec sqlite3 d.db < in.sql",
        ..PLAIN
    },
    Program {
        name: "curl_local_server",
        needs: &["curl"],
        command: "curl -s http://127.0.0.1:{port}/hello; curl -s http://127.0.0.1:{port}/large | md5sum; \
                  curl -sf http://127.0.0.1:{port}/absent; echo $?; curl -s http://127.0.0.1:1/; echo $?",
        ..PLAIN
    },
    Program {
        name: "vim_ex_mode",
        needs: &["vim"],
        setup: TREE,
        command: "vim -es -u NONE -i NONE -c '%s/1/one/g' -c 'normal Goadded' -c 'wq! out' tree/a/file9; echo $?; md5sum out",
        ..PLAIN
    },
    Program {
        name: "openssl_speed",
        needs: &["openssl"],
        command: "exec openssl speed -seconds 1 -bytes 1024 sha256",
        comparison: Comparison::ExitCode,
        ..PLAIN
    },
    Program {
        name: "openssl_digest",
        needs: &["openssl"],
        setup: TREE,
        command: "cat tree/*/file* | openssl dgst -sha256; openssl rand -hex 16 | wc -c; \
                  echo secret | openssl enc -aes-256-cbc -pbkdf2 -k pass | openssl enc -d -aes-256-cbc -pbkdf2 -k pass",
        ..PLAIN
    },
    Program {
        name: "busybox_static",
        needs: &["busybox"],
        setup: TREE,
        command: "busybox sh -c 'busybox find tree -type f | busybox sort | busybox md5sum; busybox tar c tree | busybox gzip | busybox wc -c > size; \
                  busybox awk \"BEGIN { print 6 * 7 }\"; exit 9'",
        code: 9,
        ..PLAIN
    },
    Program {
        name: "terminal_script",
        needs: &["script"],
        command: "exec script -qec 'test -t 0 && test -t 1 && stty size && echo on a terminal; exit 6' /dev/null",
        code: 6,
        ..PLAIN
    },
    Program {
        name: "terminal_bash",
        needs: &["script", "bash"],
        command: "printf 'echo one\\nfalse\\necho status $?\\nexit 8\\n' > typed; \
                  script -qec 'bash --norc --noprofile -i < typed' /dev/null; echo $?",
        comparison: Comparison::ExitCode,
        ..PLAIN
    },
    Program {
        name: "timeout_kills",
        needs: &["timeout"],
        command: "timeout 0.2 sleep 100; echo $?; { timeout -s KILL 0.2 sleep 100; } 2> /dev/null; echo $?; timeout 5 true; echo $?",
        ..PLAIN
    },
    Program {
        name: "dd_and_coreutils",
        needs: &["dd"],
        setup: TREE,
        command: "dd if=/dev/zero bs=1M count=20 2>/dev/null | md5sum; head -c 3000000 /dev/urandom | wc -c; \
                  split -n 4 tree/a/file30 part; cat part* | cmp - tree/a/file30; du -s --apparent-size tree | wc -l; \
                  stat -c '%A %h %s %n' tree/a/file1; cp -a tree copy; mv copy moved; rm -r moved; touch -d 2001-01-01 t; date -r t -u; \
                  seq 100000 | shuf | sort -n | tail -1; yes | head -100000 | wc -l; env | grep -c PATH; id -u; expr 3 + 4; factor 123456",
        ..PLAIN
    },
    Program {
        name: "dies_by_signal",
        needs: &["bash"],
        command: "exec bash -c 'echo before; kill -SEGV $$'",
        code: 139,
        ..PLAIN
    },
    Program {
        name: "memory_shared_outside",
        needs: &["gcc"],
        build: "gcc -O1 -o client {workloads}/shared_outside.c && gcc -O1 -o outsider {workloads}/outsider.c",
        setup: "setsid {built}/outsider > /dev/null 2>&1 < /dev/null & until [ -S outsider ]; do sleep 0.01; done",
        command: "exec {built}/client",
        ..PLAIN
    },
    Program {
        name: "x11_shared_memory",
        needs: &["Xvfb", "ffmpeg"],
        setup: "setsid timeout 100 Xvfb -displayfd 3 -screen 0 320x240x24 -retro -ac -terminate \
                  > /dev/null 2>&1 < /dev/null 3> display & until [ -s display ]; do sleep 0.01; done",
        command: "exec ffmpeg -nostdin -loglevel error -f x11grab -video_size 320x240 -framerate 25 \
                  -i :$(cat display) -fps_mode passthrough -frames:v 3 -f md5 -",
        ..PLAIN
    },
];

fn main() -> ExitCode {
    let prepared = Surroundings::new().and_then(|mut surroundings| {
        surroundings.set("{port}", Server::start()?.port().to_string());
        surroundings.set("{usr}", if quick_mode() { "/usr/share/doc" } else { "/usr" }.to_owned());
        Ok(program_trials(&Arc::new(surroundings), PROGRAMS, &[User::Current, User::Nobody]))
    });
    match prepared {
        Ok(trials) => libtest_mimic::run(&suite_arguments(), trials).exit_code(),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
