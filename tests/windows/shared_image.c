/* Shows an image that lies in memory which it shares with its display (MIT-SHM), and changes the memory
   behind the request: what is on the screen is what was there before. It speaks the protocol itself. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
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

int main(void) {
    connect_to_display();
    uint32_t base = answer[3];
    size_t vendor = answer[6] & 0xffff, formats = answer[7] >> 8 & 0xff;
    uint32_t root = answer[10 + (vendor + 3) / 4 + formats * 2];
    enum { EXPOSE = 12, EXPOSURES = 1 << 15, REPLY = 1, COMPLETION = 0 };
    const char extension[8] = "MIT-SHM";
    uint32_t query[4] = {head(98, 0, 4), 7};
    memcpy(query + 2, extension, 8);
    send_words(query, 4);
    wait_for(REPLY);
    int shm = answer[2] >> 8 & 0xff;

    uint32_t window = base | 1, context = base | 2, shared = base | 3;
    const uint32_t create[] = {head(1, 0, 10), window, root, 30 | 40 << 16, 100 | 80 << 16, 2 | 1 << 16, 0, 1 << 1 | 1 << 11,
                               0x204060, EXPOSURES};
    const uint32_t create_context[] = {head(55, 0, 4), context, window, 0};
    const uint32_t map[] = {head(8, 0, 2), window};
    send_words(create, 10);
    send_words(create_context, 4);
    send_words(map, 2);
    wait_for(EXPOSE);

    int segment = shmget(IPC_PRIVATE, WIDTH * HEIGHT * 4, IPC_CREAT | 0600);
    uint32_t *image = shmat(segment, NULL, 0);
    if (image == (void *)-1)
        fail("shmat");
    const uint32_t attach[] = {head(shm, 1, 4), shared, segment, 0};
    send_words(attach, 4);
    for (int at = 0; at < WIDTH * HEIGHT; at++)
        image[at] = at * 2654435761u >> 8;
    /* All but the first two columns and the first line. */
    const uint32_t put[] = {head(shm, 3, 10), window, context, WIDTH | HEIGHT << 16, 2 | 1 << 16,
                            (WIDTH - 2) | (HEIGHT - 1) << 16, 7 | 9 << 16, 24 | 2 << 8, shared, 0};
    send_words(put, 10);
    const uint32_t sync[] = {head(43, 0, 1)};
    send_words(sync, 1);
    wait_for(REPLY);
    memset(image, 0xff, WIDTH * HEIGHT * 4);
    shmctl(segment, IPC_RMID, NULL);
    for (;;)
        pause();
}
