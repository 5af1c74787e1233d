/* Draws by turns through several connections to its display: two windows that stay, one whose connection ends, and a
   connection that draws nothing. With an argument a child draws, too, which somebody kills: this program learns of it,
   and draws once more. It speaks the protocol itself. */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

struct display {
    int socket;
    uint32_t window, context;
};

static uint32_t answer[16384];

static void fail(const char *what) {
    perror(what);
    exit(2);
}

static void send_words(struct display *display, const uint32_t *words, size_t count) {
    if (write(display->socket, words, count * 4) != (ssize_t)(count * 4))
        fail("write");
}

static void receive(struct display *display, void *to, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t got = read(display->socket, (char *)to + done, bytes - done);
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
static void wait_for(struct display *display, int kind) {
    do {
        receive(display, answer, 32);
        if ((answer[0] & 0xff) == 0) {
            fprintf(stderr, "error %d\n", answer[0] >> 8 & 0xff);
            exit(2);
        }
    } while ((answer[0] & 0x7f) != (uint32_t)kind);
}

enum { EXPOSE = 12, EXPOSURES = 1 << 15, REPLY = 1 };

/* Waits until the display has done all. */
static void settle(struct display *display) {
    const uint32_t sync[] = {head(43, 0, 1)};
    send_words(display, sync, 1);
    wait_for(display, REPLY);
}

static struct display connect_to_display(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *name = getenv("DISPLAY");
    snprintf(address.sun_path, sizeof address.sun_path, "/tmp/.X11-unix/X%s", name ? name + 1 : "0");
    struct display display = {.socket = socket(AF_UNIX, SOCK_STREAM, 0)};
    if (connect(display.socket, (struct sockaddr *)&address, sizeof address) != 0)
        fail("connect");
    const uint32_t greeting[3] = {'l' | 11 << 16, 0, 0};
    send_words(&display, greeting, 3);
    receive(&display, answer, 8);
    size_t bytes = (answer[1] >> 16) * 4;
    if ((answer[0] & 0xff) != 1 || bytes > sizeof answer - 8)
        fail("setup");
    receive(&display, answer + 2, bytes);
    return display;
}

/* A connection with a window of 200 by 150. */
static struct display open_window(int x, int y, uint32_t color) {
    struct display display = connect_to_display();
    size_t vendor = answer[6] & 0xffff, formats = answer[7] >> 8 & 0xff;
    uint32_t base = answer[3], root = answer[10 + (vendor + 3) / 4 + formats * 2];
    display.window = base | 1;
    display.context = base | 2;
    const uint32_t create[] = {head(1, 0, 10), display.window, root, x | y << 16, 200 | 150 << 16, 1 << 16, 0,
                               1 << 1 | 1 << 11, color, EXPOSURES};
    const uint32_t create_context[] = {head(55, 0, 5), display.context, display.window, 1 << 2, color ^ 0xffffff};
    const uint32_t map[] = {head(8, 0, 2), display.window};
    send_words(&display, create, 10);
    send_words(&display, create_context, 5);
    send_words(&display, map, 2);
    wait_for(&display, EXPOSE);
    return display;
}

static void draw(struct display *display, int x, int y) {
    const uint32_t fill[] = {head(70, 0, 5), display->window, display->context, x | y << 16, 14 | 14 << 16};
    send_words(display, fill, 5);
}

/* A file of this name and content is there, as a whole. */
static void tell(const char *name, int number) {
    FILE *file = fopen("new", "w");
    if (file == NULL || fprintf(file, "%d", number) < 0 || fclose(file) != 0 || rename("new", name) != 0)
        fail(name);
}

/* The child draws, and says so; who runs this says when it is killed, and this program draws when it is gone. */
static void live_longer_than_a_child(struct display *own) {
    int said[2];
    if (pipe(said) != 0)
        fail("pipe");
    pid_t child = fork();
    if (child == 0) {
        struct display display = open_window(30, 220, 0x800000);
        draw(&display, 20, 20);
        settle(&display);
        if (write(said[1], "d", 1) != 1)
            fail("write");
        for (;;)
            pause();
    }
    char drawn;
    if (read(said[0], &drawn, 1) != 1)
        fail("read");
    draw(own, 90, 90);
    settle(own);
    if (mkfifo("go", 0600) != 0)
        fail("mkfifo");
    tell("child", child);
    close(open("go", O_RDONLY));
    if (waitpid(child, NULL, 0) != child)
        fail("waitpid");
    draw(own, 110, 110);
    settle(own);
}

int main(int argc, char **argv) {
    (void)argv;
    struct display first = open_window(30, 40, 0x204060), second = open_window(260, 60, 0x604020);
    struct display idle = connect_to_display(), gone = open_window(150, 100, 0x008000);
    for (int turn = 0; turn < 8; turn++) {
        draw(&first, 10 + 20 * turn, 10 + 10 * turn);
        draw(&second, 10 + 20 * turn, 90 - 10 * turn);
        draw(&gone, 10 + 20 * turn, 50);
    }
    /* A display takes from its connections in an order of its own. */
    settle(&first);
    settle(&second);
    settle(&gone);
    close(gone.socket);
    /* The display takes the window away some time later; until then it covers what is drawn here. */
    wait_for(&first, EXPOSE);
    settle(&second);
    if (argc > 1)
        live_longer_than_a_child(&second);
    settle(&idle);
    draw(&first, 150, 120);
    settle(&first);
    tell("drawn", 0);
    for (;;)
        pause();
}
