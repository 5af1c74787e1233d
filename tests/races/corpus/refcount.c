// A reference is taken after it was seen that the object is there, and both are not one.
#include "corpus.h"

struct object {
	atomic_int references;
	atomic_int is_freed;
};

static struct object object;
static _Atomic(struct object *) current;

static void put(struct object *object)
{
	if (atomic_fetch_sub(&object->references, 1) == 1)
		atomic_store(&object->is_freed, 1);
}

static void *use(void *unused)
{
	struct object *seen = atomic_load(&current);
	if (seen) {
		atomic_fetch_add(&seen->references, 1);
		if (atomic_load(&seen->is_freed))
			caught("a reference to an object that was freed");
		put(seen);
	}
	return unused;
}

int main(void)
{
	atomic_store(&object.references, 1);
	atomic_store(&current, &object);
	pthread_t user = start(use, NULL);
	atomic_store(&current, NULL);
	put(&object);
	pthread_join(user, NULL);
	return 0;
}
