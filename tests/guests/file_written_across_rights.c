// A file is mapped privately as data and, behind that, as code. Another process writes over both at
// once, and the code runs again.
// covers: mprotect pwrite64
#include "guest.h"
#include <sys/mman.h>

#define PAGE 4096

// mov eax, answer; ret
static void write_pages(int fd, char filling, unsigned char answer)
{
	unsigned char pages[2 * PAGE];
	memset(pages, filling, sizeof pages);
	memcpy(pages + PAGE, (unsigned char[]){ 0xb8, answer, 0, 0, 0, 0xc3 }, 6);
	CHECK(pwrite(fd, pages, sizeof pages, 0) == sizeof pages);
}

static int file;

static void write_again(void)
{
	write_pages(file, 'b', 43);
}

int main(void)
{
	file = open("both", O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(file >= 0);
	write_pages(file, 'a', 42);
	char *shown = mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE, file, 0);
	CHECK(shown != MAP_FAILED);
	CHECK(mprotect(shown + PAGE, PAGE, PROT_READ | PROT_EXEC) == 0);
	int (*code)(void) = (int (*)(void))(shown + PAGE);
	say("%c %d", shown[0], code());
	run_in_child("writer", write_again);
	say("%c %d", shown[PAGE - 1], code());
	CHECK(unlink("both") == 0);
	return 0;
}
