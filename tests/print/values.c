/* Values of many types. It writes itself what is to be printed of each. */
/* at: MARK  print: i, small, big, letter, ratio, half, flag, colour, name, text, p->x, p->next->y, *p, list[i], grid[1][i], -i * 2 + 1, p->bits.low, p->bits.high, total, calls, u.bytes[0], i > 1 && p->next->y < 0, (unsigned char) small, sizes[colour] */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum colour { RED, GREEN = 5, BLUE = -3 };

struct point {
    int x;
    long y;
    struct {
        unsigned low : 3;
        int high : 7;
    } bits;
    const char *label;
    struct point *next;
};

union both {
    uint32_t word;
    unsigned char bytes[4];
};

static long total;
int calls = 7;
static const int sizes[6] = {1, 2, 3, 4, 5, 66};

__attribute__((noinline)) static void consume(void *what)
{
    __asm__ volatile("" : : "r"(what) : "memory");
}

__attribute__((noinline)) static void visit(int i, struct point *p)
{
    short small = (short)(-100 - i);
    uint64_t big = 18446744073709551615u - (unsigned)i;
    char letter = (char)('a' + i);
    double ratio = i / 4.0;
    float half = (float)(i + 0.5);
    bool flag = i % 2 != 0;
    enum colour colour = i == 0 ? RED : GREEN;
    char name[8] = "name";
    const char *text = i == 2 ? "two\n\"2\"" : "other";
    int list[3] = {10, 20, 30};
    int grid[2][3] = {{1, 2, 3}, {4, 5, 6}};
    union both u = {.word = 0x01020304u + (unsigned)i};
    name[4] = (char)('0' + i);
    total += i;
    consume(&small), consume(&big), consume(&letter), consume(&ratio), consume(&half), consume(&flag);
    consume(&colour), consume(&text), consume(list), consume(grid), consume(&u), consume(name);
    printf("i = %d, small = %d, big = %lu, letter = %d '%c', ratio = %g, half = %g, flag = %s, colour = %s, "
           "name = \"%s\", text = %s, p->x = %d, p->next->y = %ld, "
           "*p = {x = %d, y = %ld, bits = {low = %u, high = %d}, label = \"%s\", next = %p}, "
           "list[i] = %d, grid[1][i] = %d, -i * 2 + 1 = %d, p->bits.low = %u, p->bits.high = %d, total = %ld, "
           "calls = %d, u.bytes[0] = %d '\\%03o', i > 1 && p->next->y < 0 = %d, "
           "(unsigned char) small = %d '\\%03o', sizes[colour] = %d\n",
           i, small, big, letter, letter, ratio, half, flag ? "true" : "false", colour == RED ? "RED" : "GREEN",
           name, i == 2 ? "\"two\\n\\\"2\\\"\"" : "\"other\"", p->x, p->next->y, p->x, p->y, p->bits.low,
           p->bits.high, p->label, (void *)p->next, list[i], grid[1][i], -i * 2 + 1, p->bits.low, p->bits.high,
           total, calls, u.bytes[0], u.bytes[0], i > 1 && p->next->y < 0, (unsigned char)small,
           (unsigned char)small, sizes[colour]);
    consume(p); /* MARK */
    consume(&i), consume(&small), consume(&u);
}

int main(void)
{
    struct point second = {.x = 3, .y = -4, .label = "second"};
    struct point first = {.x = 1, .y = 2, .bits = {5, -9}, .label = "first", .next = &second};
    second.next = &first;
    for (int i = 0; i < 3; i++) {
        visit(i, &first);
        first.x *= 10;
    }
    return 0;
}
