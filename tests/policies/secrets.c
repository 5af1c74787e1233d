// Has secrets: in its environment, on its standard input, in a file, from a server, and on its heap.
// With a second argument it takes a value apart that no search of a log finds, and leaves it in its memory.
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *kept[8];

int main(int argc, char **argv) {
    const char *key = getenv("API_KEY");
    if (argc < 2 || key == NULL)
        return 2;
    // One byte at a time, as a shell's read does.
    char line[64];
    size_t length = 0;
    while (length < sizeof line - 1 && read(0, line + length, 1) == 1 && line[length] != '\n')
        length++;
    line[length] = 0;
    kept[0] = strdup(line);
    char content[256] = {0};
    int file = open("settings", O_RDONLY);
    if (file < 0 || read(file, content, sizeof content - 1) <= 0)
        return 3;
    close(file);
    kept[1] = strdup(content);
    kept[2] = malloc(2 * strlen(key) + 1);
    for (size_t at = 0; key[at] != 0; at++)
        sprintf(kept[2] + 2 * at, "%02x", (unsigned char)key[at]);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int server = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(server, (struct sockaddr *)&address, sizeof address) != 0 || write(server, "hello\n", 6) != 6)
        return 4;
    char answer[64] = {0};
    ssize_t bytes = read(server, answer, sizeof answer - 1);
    kept[3] = strdup(answer);
    // The value begins before the end of what the log has of this write, and ends behind it.
    printf("a line that is just so long that the key is at %s\n", key);
    fflush(stdout);
    printf("%s\n", kept[2]);
    fflush(stdout);
    printf("%zu %zu %zd\n", strlen(kept[0]), strlen(kept[1]), bytes);
    if (argc > 2) {
        kept[4] = strdup(argv[2]);
        for (char *at = kept[4]; *at != 0; at++)
            *at ^= 1;
    }
    return 0;
}
