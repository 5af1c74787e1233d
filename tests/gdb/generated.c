/* Data, then code at the same place, generated again and again, and last in other memory that is
 * mapped there. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define BYTES 4096

static unsigned char *place;

static unsigned char *mapped(void)
{
	return mmap(place, BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS | (place ? MAP_FIXED : 0), -1, 0);
}

/* mov $result, %eax; ret */
static void generate(unsigned char result)
{
	unsigned char code[] = { 0xb8, result, 0, 0, 0, 0xc3 };
	memcpy(place, code, sizeof code);
}

static int call(void)
{
	return ((int (*)(void))place)();
}

void finished(void)
{
}

int main(void)
{
	unsigned long sum = 0;
	place = mapped();
	memset(place, 3, BYTES);
	for (int i = 0; i < BYTES; i++)
		sum += place[i];
	printf("sum %lu\n", sum);
	for (int result = 5; result <= 7; result += 2) {
		generate(result);
		printf("result %d\n", call());
	}
	munmap(place, BYTES);
	place = mapped();
	generate(9);
	printf("result %d\n", call());
	finished();
	return 0;
}
