// Looks into three files, and fails only where one of them is there.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(void) {
    FILE *notes = fopen("notes", "r");
    FILE *settings = fopen("settings", "r");
    FILE *more = fopen("more", "r");
    char line[100] = "";
    printf("%ld\n", (long)time(NULL));
    if (notes != NULL && fgets(line, sizeof line, notes) != NULL)
        puts(line);
    if (more != NULL && fgets(line, sizeof line, more) != NULL)
        puts(line);
    if (settings == NULL)
        return 0;
    fgets(line, sizeof line, settings);
    fputs("error: settings are not allowed\n", stderr);
    return 4;
}
