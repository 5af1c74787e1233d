// A program that forks, vforks, and becomes another image of itself.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int sum;

static void add(int n) { sum += n; }

int main(int count, char **arguments) {
    if (count > 1) {
        add(atoi(arguments[1]));
        return 3;
    }
    add(1);
    pid_t child = fork();
    if (child == 0) {
        add(100);
        return 0;
    }
    waitpid(child, 0, 0);
    add(2);
    child = vfork();
    if (child == 0) {
        execl("/proc/self/exe", "program", "200", (char *)0);
        _exit(1);
    }
    waitpid(child, 0, 0);
    add(4);
    execl("/proc/self/exe", "program", "300", (char *)0);
    return 1;
}
