// A library that was loaded since a checkpoint is not there after a rollback, and can
// be loaded again; one that was unloaded is there.
// variants: O0 O2
// build: -ldl
// prints: loaded: 8
// prints: not there
// prints: loaded: 8
// prints: unloaded
// prints: still there: 8
#include "live.h"
#include <dlfcn.h>

static void *library;

static void load(void)
{
	library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
	CHECK(library);
}

static int cube_root(void)
{
	double (*cbrt)(double) = (double (*)(double))dlsym(library, "cbrt");
	CHECK(cbrt);
	return (int)(cbrt(512.0) + 0.5);
}

int main(void)
{
	need_session();
	int id = checkpoint();
	int is_first = first_time(id);
	if (!is_first) {
		CHECK(dlopen("libm.so.6", RTLD_NOW | RTLD_NOLOAD) == NULL);
		say("not there");
	}
	load();
	say("loaded: %d", cube_root());
	if (is_first)
		back(id);
	forget(id);
	id = checkpoint();
	if (first_time(id)) {
		CHECK(dlclose(library) == 0);
		CHECK(dlopen("libm.so.6", RTLD_NOW | RTLD_NOLOAD) == NULL);
		say("unloaded");
		back(id);
	}
	say("still there: %d", cube_root());
	return 0;
}
