/* Code that leaves the runtime's hands, as that of a stranger's trace may: it finds a `syscall; ret`
 * in the runtime's text and makes harmless system calls of its own, which nobody logs or answers.
 * Arguments: a directory of the outside, and the pid of a process of the outside. Each attempt tells its
 * result on standard output, past the runtime too. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static const unsigned char *const TEXT = (const unsigned char *)0x6a0000000000;
static const unsigned char *gadget;

static long outside(long number, long a, long b, long c, long d)
{
    long result;
    register long r10 __asm__("r10") = d;
    __asm__ volatile("call *%[gadget]"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), [gadget] "b"(gadget)
                     : "rcx", "r11", "memory");
    return result;
}

static void tell(const char *what, long result)
{
    char line[64];
    int length = 0;
    while (what[length]) {
        line[length] = what[length];
        length++;
    }
    line[length++] = ' ';
    /* Not by libc: its buffers would be the recorded program's. */
    const char *word = result < 0 ? "refused\n" : "done\n";
    for (int at = 0; word[at]; at++)
        line[length++] = word[at];
    outside(SYS_write, 1, (long)line, length, 0);
}

static long connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, path);
    long fd = outside(SYS_socket, AF_UNIX, SOCK_STREAM, 0, 0);
    return fd < 0 ? fd : outside(SYS_connect, fd, (long)&address, sizeof address, 0);
}

static const char *touched_in;

static void executed(void)
{
    char *const argv[] = {"touch", "executed", NULL};
    outside(SYS_chdir, (long)touched_in, 0, 0, 0);
    long result = outside(SYS_execve, (long)"/usr/bin/touch", (long)argv, 0, 0);
    outside(SYS_exit_group, result < 0 ? 1 : 0, 0, 0, 0);
}

/* In a child that shares our memory, and returns from the gadget to a stack of its own. */
static void execute(const char *directory)
{
    static long stack[4096] __attribute__((aligned(16)));
    long *top = &stack[4094];
    int status = 0;
    touched_in = directory;
    *top = (long)executed;
    long child = outside(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, (long)top, 0, 0);
    outside(SYS_wait4, child, (long)&status, 0, 0);
    /* In a replay what is executed finds limits that it dies of; it was executed nevertheless. */
    tell("exec", child < 0 || status == 1 << 8 ? -1 : 0);
}

int main(int argc, char **argv)
{
    char made[512], secret[512], socket_path[512], memory[64];
    if (argc != 3)
        return 2;
    int other = atoi(argv[2]);
    snprintf(made, sizeof made, "%s/made", argv[1]);
    snprintf(secret, sizeof secret, "%s/secret", argv[1]);
    snprintf(socket_path, sizeof socket_path, "%s/socket", argv[1]);
    snprintf(memory, sizeof memory, "/proc/%d/mem", other);
    for (const unsigned char *at = TEXT; !gadget; at++)
        if (at[0] == 0x0f && at[1] == 0x05 && at[2] == 0xc3)
            gadget = at;
    tell("create", outside(SYS_open, (long)made, O_CREAT | O_WRONLY, 0600, 0));
    tell("read", outside(SYS_open, (long)secret, O_RDONLY, 0, 0));
    tell("connect", connect_to(socket_path));
    tell("internet", outside(SYS_socket, AF_INET, SOCK_STREAM, 0, 0));
    tell("kill", outside(SYS_kill, other, SIGSTOP, 0, 0));
    tell("trace", outside(SYS_ptrace, PTRACE_SEIZE, other, 0, 0));
    tell("memory", outside(SYS_open, (long)memory, O_RDWR, 0, 0));
    tell("keys", outside(SYS_keyctl, 0 /* KEYCTL_GET_KEYRING_ID */, -3, 1, 0));
    tell("ring", outside(SYS_io_uring_setup, 2, (long)(char[256]){0}, 0, 0));
    tell("segment", outside(SYS_shmget, 0 /* IPC_PRIVATE */, 4096, 0600, 0));
    long child = outside(SYS_clone, CLONE_NEWNS | SIGCHLD, 0, 0, 0);
    if (child == 0)
        outside(SYS_exit_group, 0, 0, 0, 0);
    tell("namespace", child);
    execute(argv[1]);
    puts("the recorded program's own words");
    return 7;
}
