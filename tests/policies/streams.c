// Reads and writes streams of each kind, and tells what it read. What it does is the same whatever it reads,
// as long as that is as long.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <netinet/in.h>
#include <unistd.h>

static void check(int holds, const char *what) {
    if (!holds) {
        perror(what);
        exit(2);
    }
}

static void tell(const char *what, const char *bytes, long count) {
    printf("%s: %.*s\n", what, (int)count, bytes);
    fflush(stdout);
}

// Positions, appending, vectors, names, truncation; the child has copies of the descriptors.
static void files(void) {
    char bytes[64];
    int in = open("in", O_RDONLY);
    check(in >= 0, "in");
    check(read(in, bytes, 6) == 6, "read");
    tell("first", bytes, 6);
    check(pread(in, bytes, 6, 12) == 6, "pread");
    tell("third", bytes, 6);
    int copy = dup(in);
    close(in);
    struct iovec pieces[2] = {{bytes, 2}, {bytes + 2, 4}};
    check(readv(copy, pieces, 2) == 6, "readv");
    tell("second", bytes, 6);
    int out = open("out.new", O_RDWR | O_CREAT | O_TRUNC, 0644);
    check(out >= 0, "out.new");
    check(write(out, "0123456789", 10) == 10, "write");
    check(pwrite(out, "AB", 2, 2) == 2, "pwrite");
    check(lseek(out, 8, SEEK_SET) == 8, "lseek");
    pid_t child = fork();
    if (child == 0) {
        check(write(out, "child", 5) == 5, "child");
        check(read(copy, bytes, 6) == 6, "read in child");
        tell("fourth", bytes, 6);
        _exit(0);
    }
    int status;
    check(waitpid(child, &status, 0) == child && status == 0, "child");
    struct iovec more[2] = {{"mo", 2}, {"re\n", 3}};
    check(writev(out, more, 2) == 5, "writev");
    check(ftruncate(out, 17) == 0, "ftruncate");
    close(out);
    check(rename("out.new", "out") == 0, "rename");
    int log = open("log", O_WRONLY | O_CREAT | O_APPEND, 0644);
    check(log >= 0 && write(log, "line\n", 5) == 5, "log");
    close(log);
    int gone = open("gone", O_WRONLY | O_CREAT, 0644);
    check(gone >= 0 && write(gone, "x", 1) == 1 && close(gone) == 0 && unlink("gone") == 0, "gone");
    check(mkdir("dir", 0755) == 0, "mkdir");
    int from = open("in", O_RDONLY), to = open("dir/copied", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    check(from >= 0 && to >= 0, "copy");
    check(lseek(from, 6, SEEK_SET) == 6, "lseek");
    check(copy_file_range(from, NULL, to, NULL, 12, 0) == 12, "copy_file_range");
    close(from);
    close(to);
}

static void input(void) {
    char bytes[64];
    long all = 0;
    while (all < 6) {
        long count = read(0, bytes + all, 6 - all);
        check(count > 0, "stdin");
        all += count;
    }
    tell("stdin", bytes, 6);
}

static void ask(int fd, const char *what) {
    char bytes[64];
    check(write(fd, "hello\n", 6) == 6, what);
    struct pollfd polled = {fd, POLLIN, 0};
    check(poll(&polled, 1, -1) == 1, "poll");
    long all = 0;
    while (all < 6) {
        long count = recv(fd, bytes + all, 6 - all, 0);
        if (count < 0 && errno == EAGAIN)
            continue;
        check(count > 0, what);
        all += count;
    }
    tell(what, bytes, 6);
}

// A Unix connection, and one of TCP that does not block, beside a pipe of the program's own in one epoll set.
static void connections(const char *port) {
    int local = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    check(connect(local, (void *)&address, sizeof address) == 0, "socket");
    ask(local, "unix");
    int far = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(atoi(port)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    check(connect(far, (void *)&there, sizeof there) == 0 || errno == EINPROGRESS, "connect");
    struct pollfd polled = {far, POLLOUT, 0};
    check(poll(&polled, 1, -1) == 1, "poll");
    int set = epoll_create1(0), ends[2];
    check(pipe(ends) == 0 && write(ends[1], "fed", 3) == 3, "pipe");
    struct epoll_event wanted = {.events = EPOLLIN, .data.fd = ends[0]};
    check(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &wanted) == 0, "epoll");
    wanted.data.fd = far;
    check(epoll_ctl(set, EPOLL_CTL_ADD, far, &wanted) == 0, "epoll");
    ask(far, "tcp");
    struct epoll_event ready;
    check(epoll_wait(set, &ready, 1, -1) == 1 && ready.data.fd == ends[0], "epoll_wait");
    char bytes[8];
    check(read(ends[0], bytes, 3) == 3, "pipe");
    tell("pipe", bytes, 3);
    close(local);
    close(far);
}

int main(int count, char **words) {
    if (count < 2)
        return 2;
    if (strcmp(words[1], "files") == 0)
        files();
    else if (strcmp(words[1], "stdin") == 0)
        input();
    else
        connections(words[1]);
    return 0;
}
