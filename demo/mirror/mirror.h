/* Databases in a region of retrovane-mirror, whose checkpoints are taken without fork.
 * Built with MALLOC=mirror; used where REDIS_MIRROR names the region's files. */
#ifndef __REDIS_MIRROR_H
#define __REDIS_MIRROR_H

#include <stddef.h>
#include <stdint.h>

#ifdef USE_MIRROR
struct rdbSaveInfo;

void *mirror_malloc(size_t size);
void *mirror_calloc(size_t count, size_t size);
void *mirror_realloc(void *ptr, size_t size);
void mirror_free(void *ptr);
size_t mirror_malloc_size(void *ptr);
void zmalloc_adopt(size_t bytes);

/* Opens the region, and takes the seed of hash functions from one that is not new. */
void mirrorOpen(void);
/* Takes the databases from the region and returns 1, or puts new ones there. */
int mirrorRecover(void);
/* As rdbSave() and rdbSaveBackground(), which they are without a region. */
int mirrorSave(char *filename, struct rdbSaveInfo *rsi);
int mirrorSaveBackground(char *filename, struct rdbSaveInfo *rsi);
int mirrorIsSaving(void);
void mirrorCron(void);
/* 1: this thread allocates what is no data, outside the region; 0: no more. */
void mirrorOutside(int outside);
/* True for a string that can be part of the data as it is. */
int mirrorKeeps(const void *ptr);
#else
#define mirrorOpen() ((void)0)
#define mirrorRecover() 0
#define mirrorSave rdbSave
#define mirrorSaveBackground rdbSaveBackground
#define mirrorIsSaving() 0
#define mirrorCron() ((void)0)
#define mirrorOutside(outside) ((void)(outside))
#define mirrorKeeps(ptr) 1
#endif
#endif
