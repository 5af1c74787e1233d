// A library loaded and unloaded at run time, with initialisers.
// covers: openat mmap munmap
// variants: O0 O2
#include "guest.h"
#include <dlfcn.h>

int main(void)
{
	for (int i = 0; i < 3; i++) {
		void *library = dlopen("libm.so.6", RTLD_NOW);
		CHECK(library);
		double (*cosine)(double) = (double (*)(double))dlsym(library, "cos");
		CHECK(cosine);
		say("cos 0 = %.1f", cosine(0));
		nondet("at %p", (void *)cosine);
		CHECK(dlclose(library) == 0);
	}
	CHECK(!dlopen("libabsent.so", RTLD_NOW));
	return 0;
}
