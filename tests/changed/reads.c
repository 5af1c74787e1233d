// Reads a file of a megabyte in several ways, and tells what it read. With `changed` it writes to the
// file half-way; with `shared` two processes read through one descriptor; with `moved` it waits half-way for
// somebody who reads through the same one. `-` is its standard input.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK 4096

static unsigned long sum = 14695981039346656037ul;

static void add(const unsigned char *bytes, long count) {
    for (long at = 0; at < count; at++)
        sum = (sum ^ bytes[at]) * 1099511628211ul;
}

static void tell(const char *what) {
    char text[64];
    int length = snprintf(text, sizeof text, "%s %lx\n", what, sum);
    if (write(1, text, length) != length)
        exit(2);
}

static long read_blocks(int fd, int blocks) {
    static unsigned char block[BLOCK];
    long all = 0;
    for (; blocks != 0; blocks--) {
        long count = read(fd, block, BLOCK);
        if (count <= 0)
            break;
        add(block, count);
        all += count;
    }
    return all;
}

int main(int count, char **words) {
    if (count != 3)
        return 2;
    const char *how = words[2];
    int fd = strcmp(words[1], "-") == 0 ? 0 : open(words[1], O_RDONLY);
    if (fd < 0)
        return 2;
    if (read_blocks(fd, 64) != 64 * BLOCK)
        return 2;
    tell("begin");
    if (strcmp(how, "changed") == 0) {
        int other = open(words[1], O_WRONLY);
        if (other < 0 || pwrite(other, "changed", 7, 600000) != 7)
            return 2;
    }
    if (strcmp(how, "moved") == 0) {
        close(open("go", O_CREAT | O_WRONLY, 0600));
        while (access("gone", F_OK) != 0)
            usleep(10000);
    }
    if (strcmp(how, "shared") == 0) {
        pid_t child = fork();
        read_blocks(fd, -1);
        if (child == 0) {
            tell("child");
            return 0;
        }
        waitpid(child, NULL, 0);
        tell("parent");
        return 0;
    }
    int copy = dup2(fd, 9);
    read_blocks(copy, 32);
    read_blocks(fd, -1);
    tell("blocks");
    static unsigned char large[600000], first[5000], second[70000];
    add(large, pread(fd, large, sizeof large, 12345));
    tell("at a place");
    lseek(fd, 100, SEEK_SET);
    struct iovec parts[2] = {{first, sizeof first}, {second, sizeof second}};
    if (readv(fd, parts, 2) != sizeof first + sizeof second)
        return 2;
    add(first, sizeof first);
    add(second, sizeof second);
    tell("in parts");
    return 0;
}
