// One thread reads what nobody else shall see, byte by byte; another passes it on: to a pipe, a pair of sockets, a
// file, which are read again, and to standard output. Prints what came of it.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static char text[256];
static size_t length;
static pthread_barrier_t was_read;

static void *reads(void *unused) {
    int file = open("settings", O_RDONLY);
    while (file >= 0 && length < sizeof text - 1 && read(file, text + length, 1) == 1)
        length++;
    close(file);
    pthread_barrier_wait(&was_read);
    return unused;
}

static int pipe_ends[2], pair[2];

static void *writes(void *unused) {
    pthread_barrier_wait(&was_read);
    ssize_t done = write(pipe_ends[1], text, length);
    // The log has four bytes of it.
    char line[320];
    int bytes = snprintf(line, sizeof line, "%-44s%s", "a line before it", text);
    done += send(pair[1], line, bytes, 0);
    int file = open("copy", O_CREAT | O_TRUNC | O_WRONLY, 0600);
    struct iovec parts[] = {{text, 9}, {text + 9, length - 9}};
    done += writev(file, parts, 2);
    for (size_t at = 0; at < length; at++)
        done += write(file, text + at, 1);
    close(file);
    // What it makes of it is in the log as it was, too.
    char hex[512];
    for (size_t at = 0; at < length; at++)
        sprintf(hex + 2 * at, "%02x", (unsigned char)text[at]);
    int made = open("made", O_CREAT | O_TRUNC | O_WRONLY, 0600);
    done += write(made, hex, 2 * length);
    close(made);
    return done < 0 ? NULL : unused;
}

int main(void) {
    pthread_t reader, writer;
    if (pipe(pipe_ends) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        return 2;
    pthread_barrier_init(&was_read, NULL, 2);
    pthread_create(&reader, NULL, reads, NULL);
    pthread_create(&writer, NULL, writes, NULL);
    pthread_join(reader, NULL);
    pthread_join(writer, NULL);
    char got[1024] = {0};
    ssize_t through_pipe = read(pipe_ends[0], got, sizeof got);
    ssize_t through_pair = read(pair[0], got, sizeof got);
    int file = open("copy", O_RDONLY);
    ssize_t of_file = read(file, got, sizeof got - 1);
    printf("%s%zd %zd %zd\n", got, through_pipe, through_pair, of_file);
    return 0;
}
