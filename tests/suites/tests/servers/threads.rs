//! Programs with threads, or with processes that share memory, that run to
//! their end. What chance decides they print in lines with `~`: the replay has
//! to show the same.

use suites::{Comparison, Program};

const PLAIN: Program = Program::PLAIN;

/// Files that compressors take some time for.
const TEXT: &str = "seq 1 400000 > text";

const GIT: &str = "
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=C GIT_COMMITTER_EMAIL=c@example.org
export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-02T00:00:00Z'
export GIT_CONFIG_GLOBAL=$PWD/gitconfig
";

pub const PROGRAMS: &[Program] = &[
    Program {
        name: "cpp_threads",
        needs: &["g++"],
        build: "g++ -O2 -std=c++17 -pthread -o threads {workloads}/threads.cpp",
        command: "exec {built}/threads",
        code: 7,
        ..PLAIN
    },
    Program {
        name: "cpp_threads_checked",
        needs: &["g++"],
        build: "g++ -O0 -g -std=c++17 -pthread -static-libstdc++ -o threads {workloads}/threads.cpp",
        command: "exec {built}/threads",
        code: 7,
        checked: true,
        ..PLAIN
    },
    Program {
        name: "cpp_threads_static",
        needs: &["g++"],
        build: "g++ -O2 -std=c++17 -static -pthread -o threads {workloads}/threads.cpp",
        command: "exec {built}/threads",
        code: 7,
        slow: true,
        ..PLAIN
    },
    Program {
        name: "cpp_signals",
        needs: &["g++"],
        build: "g++ -O2 -std=c++17 -pthread -o signals {workloads}/signals.cpp",
        command: "exec {built}/signals",
        ..PLAIN
    },
    Program {
        name: "c_shared_memory",
        needs: &["gcc"],
        build: "gcc -O2 -pthread -o shared_memory {workloads}/shared_memory.c",
        command: "exec {built}/shared_memory",
        checked: true,
        ..PLAIN
    },
    Program {
        name: "openmp",
        needs: &["gcc"],
        build: "gcc -O2 -fopenmp -o openmp {workloads}/openmp.c",
        command: "OMP_NUM_THREADS=4 exec {built}/openmp",
        ..PLAIN
    },
    Program {
        name: "openmp_spinning",
        needs: &["gcc"],
        build: "gcc -O2 -fopenmp -o openmp {workloads}/openmp.c",
        command: "OMP_NUM_THREADS=2 OMP_WAIT_POLICY=active exec {built}/openmp",
        slow: true,
        ..PLAIN
    },
    Program {
        name: "rust_threads",
        needs: &["gcc"],
        build: "rustc --edition 2021 -O -o threads {workloads}/threads.rs",
        command: "exec {built}/threads 2> /dev/null",
        code: 4,
        ..PLAIN
    },
    Program {
        name: "go_goroutines",
        needs: &["go"],
        build: "GO111MODULE=off GOTOOLCHAIN=local go build -o goroutines {workloads}/goroutines.go",
        command: "exec {built}/goroutines",
        code: 8,
        ..PLAIN
    },
    Program {
        name: "go_cgo",
        needs: &["go", "gcc"],
        build: "CGO_ENABLED=1 GO111MODULE=off GOTOOLCHAIN=local go build -o cgo {workloads}/cgo.go",
        command: "exec {built}/cgo",
        ..PLAIN
    },
    Program {
        name: "java_g1",
        needs: &["java", "javac"],
        build: "javac -d . {workloads}/Threads.java",
        command: "exec java -XX:+UseG1GC -Xmx128m -cp {built} Threads",
        code: 6,
        ..PLAIN
    },
    Program {
        name: "java_parallel_collector",
        needs: &["java", "javac"],
        build: "javac -d . {workloads}/Threads.java",
        command: "exec java -XX:+UseParallelGC -Xmx64m -Xmn16m -cp {built} Threads",
        code: 6,
        slow: true,
        ..PLAIN
    },
    Program {
        name: "java_interpreted",
        needs: &["java", "javac"],
        build: "javac -d . {workloads}/Threads.java",
        command: "exec java -Xint -XX:+UseSerialGC -Xmx64m -cp {built} Threads",
        code: 6,
        slow: true,
        ..PLAIN
    },
    Program {
        name: "javac",
        needs: &["java", "javac"],
        command: "javac -d . {workloads}/Threads.java && ls",
        slow: true,
        ..PLAIN
    },
    Program {
        name: "node_workers",
        needs: &["node"],
        command: "exec node {workloads}/workers.js",
        code: 9,
        ..PLAIN
    },
    Program {
        name: "python_threads",
        needs: &["python3"],
        command: "exec python3 {workloads}/threads.py",
        code: 5,
        ..PLAIN
    },
    Program {
        name: "python_processes",
        needs: &["python3"],
        command: "exec python3 {workloads}/processes.py",
        ..PLAIN
    },
    Program {
        name: "python_tasks",
        needs: &["python3"],
        command: "exec python3 {workloads}/tasks.py",
        ..PLAIN
    },
    Program {
        name: "perl_threads",
        needs: &["perl"],
        command: r#"exec perl -Mthreads -Mthreads::shared -MThread::Queue -e '
            my $sum :shared = 0; my $q = Thread::Queue->new; my @t = map { threads->create(sub {
                while (defined(my $n = $q->dequeue)) { lock $sum; $sum += $n } threads->tid * 2 }) } 1..3;
            $q->enqueue(1..2000); $q->end; print join(",", map { $_->join } @t), " $sum\n"; exit 3'"#,
        code: 3,
        slow: true,
        ..PLAIN
    },
    Program {
        name: "luajit",
        needs: &["luajit"],
        command: "exec luajit {workloads}/coroutines.lua",
        ..PLAIN
    },
    Program {
        name: "luajit_profiled",
        needs: &["luajit"],
        // The profiler is a timer's signal each millisecond.
        command: "luajit -jp=vi1,profile {workloads}/coroutines.lua && test -s profile && exec cat profile",
        comparison: Comparison::ExitCode,
        slow: true,
        ..PLAIN
    },
    Program {
        name: "zstd_threads",
        needs: &["zstd"],
        setup: TEXT,
        command: "zstd -q -T2 -9 -B262144 text -o packed && zstd -q -dc packed | cmp - text && zstd -q -T2 -dc packed | md5sum",
        ..PLAIN
    },
    Program {
        name: "xz_threads",
        needs: &["xz"],
        setup: TEXT,
        command: "xz -c -T2 -1 --block-size=500000 text > text.xz && xz -dc -T2 text.xz | cmp - text && md5sum text.xz",
        ..PLAIN
    },
    Program {
        name: "pigz",
        needs: &["pigz"],
        setup: TEXT,
        command: "pigz -n -c -p 3 text > text.gz && pigz -dc text.gz | cmp - text && md5sum text.gz",
        ..PLAIN
    },
    Program {
        name: "sort_parallel",
        needs: &["sort"],
        setup: "seq 1 300000 | shuf --random-source=<(yes) > lines",
        command: "sort --parallel=4 -S 64M -n lines | md5sum; sort --parallel=2 -S 1M -T . lines | tail -1",
        ..PLAIN
    },
    Program {
        name: "ffmpeg_encode",
        needs: &["ffmpeg"],
        command: "ffmpeg -nostdin -loglevel error -f lavfi -i testsrc=d=1:s=320x240:r=25 -f lavfi -i sine=d=1 \
                  -threads 2 -c:v mpeg4 -c:a aac out.mp4 && ffmpeg -nostdin -loglevel error -threads 2 -i out.mp4 -f null - && \
                  ffprobe -v error -show_entries stream=codec_name,nb_frames out.mp4",
        ..PLAIN
    },
    Program {
        name: "ffmpeg_x264",
        needs: &["ffmpeg"],
        command: "exec ffmpeg -nostdin -loglevel error -f lavfi -i testsrc=d=1:s=320x240:r=25 -threads 3 -c:v libx264 \
                  -preset fast -f md5 -",
        slow: true,
        ..PLAIN
    },
    Program {
        name: "git_pack_threads",
        needs: &["git"],
        setup: "printf '[pack]\\n\\tthreads = 3\\n[index]\\n\\tthreads = 2\\n[grep]\\n\\tthreads = 3\\n[safe]\\n\\tdirectory = *\\n' > gitconfig
                for i in $(seq 300); do mkdir -p tree/$((i % 7)); seq $i $((i + 300)) > tree/$((i % 7))/f$i; done",
        preamble: GIT,
        command: "git init -q r && cd r && cp -r ../tree . && git add . && git commit -qm first && \
                  for i in 1 2 3; do for f in tree/$i/*; do echo $i >> $f; done; git commit -qam c$i; done; \
                  git repack -adfq --window=20 && git fsck --full && git grep -l 299 | wc -l && git clone -q --no-local . ../clone && \
                  git -C ../clone log --format=%s && git -C ../clone status --short",
        ..PLAIN
    },
    Program {
        name: "curl_parallel",
        needs: &["curl"],
        command: "curl -Z --no-progress-meter --parallel-max 4 -o a http://localhost:{port}/a -o b http://localhost:{port}/large -o c http://localhost:{port}/c \
                  && cat a c && md5sum b",
        ..PLAIN
    },
    Program {
        name: "wrk_as_client",
        needs: &["wrk"],
        command: "exec wrk -t 2 -c 4 -d 1 http://127.0.0.1:{port}/x",
        comparison: Comparison::ExitCode,
        ..PLAIN
    },
    Program {
        name: "redis_server_and_client",
        needs: &["redis-server", "redis-benchmark"],
        command: "redis-server --port 0 --unixsocket $PWD/socket --save '' > log & \
                  until redis-cli -s socket ping 2> /dev/null; do :; done; \
                  redis-benchmark -s socket -q -t set -n 5000 --threads 2 > load; redis-cli -s socket set a 1; \
                  redis-cli -s socket shutdown nosave; wait; ls load",
        comparison: Comparison::ExitCode,
        slow: true,
        ..PLAIN
    },
    Program {
        name: "postgresql_initdb",
        needs: &["initdb"],
        command: "exec initdb -D data -A trust -U postgres --no-sync --no-locale",
        slow: true,
        ..PLAIN
    },
    Program {
        name: "gcc_whole_program",
        needs: &["gcc"],
        setup: "for i in 1 2 3 4; do echo \"int f$i(int x) { return x * $i; }\" > f$i.c; done
                echo 'int f1(int), f2(int), f3(int), f4(int); int main(void) { return f1(1) + f2(2) + f3(3) + f4(0); }' > main.c",
        command: "gcc -O2 -flto=2 -o program *.c; ./program",
        code: 14,
        ..PLAIN
    },
];
