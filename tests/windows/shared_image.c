/* Shows images that lie in memory which it shares with its display (MIT-SHM): in a System V segment, in memory whose
   descriptor it passes on, and in memory whose descriptor the display passes; put from there, and as pixmaps that
   are copied and presented. It changes the memory behind each request: what is on the screen is what was there
   before. It speaks the protocol itself. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { WIDTH = 64, HEIGHT = 48, WORDS_MAX = 16384 };

static int display;
static uint32_t answer[WORDS_MAX];

static void fail(const char *what) {
    perror(what);
    exit(2);
}

static void send_words(const uint32_t *words, size_t count) {
    if (write(display, words, count * 4) != (ssize_t)(count * 4))
        fail("write");
}

static void receive(void *to, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t got = read(display, (char *)to + done, bytes - done);
        if (got <= 0)
            fail("read");
        done += got;
    }
}

/* The first bytes of a request: which, an argument, its length in words. */
static uint32_t head(int request, int argument, int words) {
    return request | argument << 8 | words << 16;
}

/* The next packet that is a reply, or an event of this kind. */
static void wait_for(int kind) {
    do {
        receive(answer, 32);
        if ((answer[0] & 0xff) == 0) {
            fprintf(stderr, "error %d\n", answer[0] >> 8 & 0xff);
            exit(2);
        }
    } while ((answer[0] & 0x7f) != (uint32_t)kind);
}

static void connect_to_display(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *name = getenv("DISPLAY");
    snprintf(address.sun_path, sizeof address.sun_path, "/tmp/.X11-unix/X%s", name ? name + 1 : "0");
    display = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(display, (struct sockaddr *)&address, sizeof address) != 0)
        fail("connect");
    const uint32_t greeting[3] = {'l' | 11 << 16, 0, 0};
    send_words(greeting, 3);
    receive(answer, 8);
    size_t bytes = (answer[1] >> 16) * 4;
    if ((answer[0] & 0xff) != 1 || bytes > sizeof answer - 8)
        fail("setup");
    receive(answer + 2, bytes);
}

enum { EXPOSE = 12, EXPOSURES = 1 << 15, REPLY = 1, BYTES = WIDTH * HEIGHT * 4 };

/* Number of an extension. */
static int extension(const char *name) {
    size_t bytes = strlen(name), words = (bytes + 3) / 4;
    uint32_t query[8] = {head(98, 0, 2 + words), bytes};
    memcpy(query + 2, name, bytes);
    send_words(query, 2 + words);
    wait_for(REPLY);
    return answer[2] >> 8 & 0xff;
}

static void fill(uint32_t *image, uint32_t factor) {
    for (int at = 0; at < WIDTH * HEIGHT; at++)
        image[at] = at * factor >> 8;
}

/* Waits until the display has done all. */
static void settle(void) {
    const uint32_t sync[] = {head(43, 0, 1)};
    send_words(sync, 1);
    wait_for(REPLY);
}

/* The descriptor goes beside a request. */
static void send_with(const uint32_t *words, size_t count, int descriptor) {
    struct iovec part = {(void *)words, count * 4};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    control.header = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.header), &descriptor, sizeof descriptor);
    if (sendmsg(display, &message, 0) != (ssize_t)part.iov_len)
        fail("sendmsg");
}

/* The same, of a reply of 32 bytes. */
static int receive_with(void) {
    struct iovec part = {answer, 32};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (recvmsg(display, &message, 0) != 32 || (answer[0] & 0xff) != REPLY || !CMSG_FIRSTHDR(&message))
        fail("recvmsg");
    int descriptor;
    memcpy(&descriptor, CMSG_DATA(&control.header), sizeof descriptor);
    return descriptor;
}

/* A pixmap in memory of this program is copied, changed, copied again, and presented. */
static void show_pixmap(int shm, uint32_t base, uint32_t window, uint32_t context) {
    uint32_t shared = base | 4, pixmap = base | 5;
    int file = memfd_create("shared", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, 4096 + BYTES) != 0)
        fail("memfd_create");
    uint32_t *image = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 4096);
    if (image == MAP_FAILED)
        fail("mmap");
    const uint32_t attach[] = {head(shm, 6, 3), shared, 0};
    send_with(attach, 3, file);
    close(file);
    fill(image, 0x9e3779b1);
    const uint32_t create[] = {head(shm, 5, 7), pixmap, window, WIDTH | HEIGHT << 16, 24, shared, 4096};
    uint32_t copy[] = {head(62, 0, 7), pixmap, window, context, 0, 3 | 70 << 16, WIDTH | HEIGHT << 16};
    send_words(create, 7);
    send_words(copy, 7);
    settle();
    fill(image, 0x1234567);
    copy[5] = 80 | 10 << 16;
    send_words(copy, 7);
    settle();
    int present = extension("Present");
    fill(image, 0x7654321);
    enum { ASYNC_COPY = 3 };
    const uint32_t now[18] = {head(present, 1, 18), window, pixmap, 0, 0, 0, 80 | 70 << 16, 0, 0, 0, ASYNC_COPY};
    send_words(now, 18);
    settle();
    const uint32_t release[] = {head(54, 0, 2), pixmap};
    send_words(release, 2);
    settle();
    memset(image, 0xff, BYTES);
}

/* An image in memory of the display. */
static void show_received(int shm, uint32_t base, uint32_t window, uint32_t context) {
    uint32_t shared = base | 6;
    const uint32_t create[] = {head(shm, 7, 4), shared, BYTES, 0};
    send_words(create, 4);
    int file = receive_with();
    uint32_t *image = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (image == MAP_FAILED)
        fail("mmap");
    close(file);
    fill(image, 0xdeadbee);
    const uint32_t put[] = {head(shm, 3, 10), window, context, WIDTH | HEIGHT << 16, 0, WIDTH | HEIGHT << 16,
                            150 | 20 << 16, 24 | 2 << 8, shared, 0};
    send_words(put, 10);
    settle();
    memset(image, 0xff, BYTES);
}

int main(void) {
    connect_to_display();
    uint32_t base = answer[3];
    size_t vendor = answer[6] & 0xffff, formats = answer[7] >> 8 & 0xff;
    uint32_t root = answer[10 + (vendor + 3) / 4 + formats * 2];
    int shm = extension("MIT-SHM");

    uint32_t window = base | 1, context = base | 2, shared = base | 3;
    const uint32_t create[] = {head(1, 0, 10), window, root, 30 | 40 << 16, 230 | 150 << 16, 2 | 1 << 16, 0, 1 << 1 | 1 << 11,
                               0x204060, EXPOSURES};
    const uint32_t create_context[] = {head(55, 0, 4), context, window, 0};
    const uint32_t map[] = {head(8, 0, 2), window};
    send_words(create, 10);
    send_words(create_context, 4);
    send_words(map, 2);
    wait_for(EXPOSE);

    int segment = shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600);
    uint32_t *image = shmat(segment, NULL, 0);
    if (image == (void *)-1)
        fail("shmat");
    const uint32_t attach[] = {head(shm, 1, 4), shared, segment, 0};
    send_words(attach, 4);
    fill(image, 2654435761u);
    /* All but the first two columns and the first line. */
    const uint32_t put[] = {head(shm, 3, 10), window, context, WIDTH | HEIGHT << 16, 2 | 1 << 16,
                            (WIDTH - 2) | (HEIGHT - 1) << 16, 7 | 9 << 16, 24 | 2 << 8, shared, 0};
    send_words(put, 10);
    settle();
    memset(image, 0xff, BYTES);
    shmctl(segment, IPC_RMID, NULL);
    show_pixmap(shm, base, window, context);
    show_received(shm, base, window, context);
    for (;;)
        pause();
}
