/* Calls: recursion, results of several kinds, a call that is left by longjmp. */
/* calls: fibonacci, mean, describe, divide, fill, leave */
#include <setjmp.h>
#include <stdio.h>

struct pair {
    int quotient;
    int rest;
};

struct large {
    long words[4];
};

static jmp_buf back;
static char text[64 * 16];
static int used;

/* Calls begin in another order than they end: lines are kept until all is known. */
static int row(void)
{
    return used++;
}

__attribute__((noinline)) static int fibonacci(int n)
{
    int own = row();
    int result = n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
    snprintf(text + own * 64, 64, "fibonacci(n = %d) = %d", n, result);
    return result;
}

__attribute__((noinline)) static double mean(double first, float second)
{
    double result = (first + second) / 2;
    snprintf(text + row() * 64, 64, "mean(first = %g, second = %g) = %g", first, second, result);
    return result;
}

__attribute__((noinline)) static const char *describe(char letter)
{
    const char *result = letter == 'x' ? "unknown" : "known";
    snprintf(text + row() * 64, 64, "describe(letter = %d '%c') = \"%s\"", letter, letter, result);
    return result;
}

__attribute__((noinline)) static struct pair divide(int a, int b)
{
    struct pair result = {a / b, a % b};
    snprintf(text + row() * 64, 64, "divide(a = %d, b = %d) = {quotient = %d, rest = %d}", a, b, result.quotient,
             result.rest);
    return result;
}

__attribute__((noinline)) static struct large fill(long from)
{
    struct large result = {{from, from + 1, from + 2, from + 3}};
    snprintf(text + row() * 64, 64, "fill(from = %ld) = {words = {%ld, %ld, %ld, %ld}}", from, from, from + 1,
             from + 2, from + 3);
    return result;
}

__attribute__((noinline)) static void leave(int jumps)
{
    if (jumps) {
        snprintf(text + row() * 64, 64, "leave(jumps = %d) = <no return was seen>", jumps);
        longjmp(back, 1);
    }
    snprintf(text + row() * 64, 64, "leave(jumps = %d)", jumps);
}

static void show(void)
{
    for (int i = 0; i < used; i++)
        puts(text + i * 64);
    used = 0;
}

int main(void)
{
    if (fibonacci(4) != 3)
        return 1;
    show();
    if (mean(1.5, 2.5f) != 2 || mean(-1, 0) != -0.5)
        return 1;
    show();
    describe('a'), describe('x');
    show();
    if (divide(17, 5).rest != 2 || divide(-7, 2).quotient != -3)
        return 1;
    show();
    if (fill(9).words[3] != 12)
        return 1;
    show();
    leave(0);
    if (!setjmp(back))
        leave(1);
    show();
    return 0;
}
