/* Databases in a region of retrovane-mirror, whose checkpoints are taken without fork.
 *
 * In the region: the keys and values of all databases, the integers that values share, the
 * seed of hash functions. A checkpoint is of a moment between two commands, so that no
 * iterator or half of a command is in it. Values refer to functions by static structures
 * (dictType), so the program is linked at a fixed address, and another build is refused.
 *
 * Outside: what was allocated before mirrorRecover(), and the structures of clients. What a
 * command under way has allocated at a checkpoint stays allocated for ever. */
#include "server.h"

#ifdef USE_MIRROR
#include <malloc.h>
#include <retrovane-mirror.h>

/* What a process finds in the region that another one left. */
struct mirrorRoots {
    uint64_t build;      /* redisBuildId() */
    void *types[4];      /* Where static structures are that data refer to. */
    uint8_t seed[16];
    robj *integers[OBJ_SHARED_INTEGERS];
    int dbnum;
    struct { dict *dict, *expires; long long avg_ttl; } db[];
};

static rv_mirror *region;
static struct mirrorRoots *roots;
static int isOn;                /* Data are allocated in the region. */
static __thread int outside;
static int64_t saving;          /* The checkpoint under way, or 0. */
static int scheduled;           /* Another one was asked for meanwhile. */
static long long startedUs;

/* ------------------------------ Allocation -------------------------------- */

void *mirror_malloc(size_t size) {
    return isOn && !outside ? rv_mirror_alloc(region,size) : malloc(size);
}

void *mirror_calloc(size_t count, size_t size) {
    return isOn && !outside ? rv_mirror_calloc(region,count,size) : calloc(count,size);
}

/* A block stays where it began. */
void *mirror_realloc(void *ptr, size_t size) {
    if (ptr == NULL) return mirror_malloc(size);
    return rv_mirror_contains(ptr) ? rv_mirror_realloc(region,ptr,size) : realloc(ptr,size);
}

void mirror_free(void *ptr) {
    if (rv_mirror_contains(ptr)) rv_mirror_free(region,ptr);
    else free(ptr);
}

size_t mirror_malloc_size(void *ptr) {
    return rv_mirror_contains(ptr) ? rv_mirror_usable_size(region,ptr) : malloc_usable_size(ptr);
}

void mirrorOutside(int is) { outside = is; }

int mirrorKeeps(const void *ptr) { return !isOn || rv_mirror_contains(ptr); }

/* -------------------------------- Start ----------------------------------- */

static void die(const char *why) {
    fprintf(stderr,"Mirror: %s\n",why);
    exit(1);
}

static void identify(struct mirrorRoots *own) {
    own->build = redisBuildId();
    own->types[0] = &dbDictType;
    own->types[1] = &setDictType;
    own->types[2] = &zsetDictType;
    own->types[3] = &hashDictType;
}

void mirrorOpen(void) {
    const char *path = getenv("REDIS_MIRROR"), *size = getenv("REDIS_MIRROR_BYTES");
    if (path == NULL) return;
    struct rv_mirror_options options = {.size = size ? strtoull(size,NULL,10) : 0};
    if (rv_mirror_open(path,&options,&region) < 0) die(rv_mirror_error());
    roots = rv_mirror_root(region,"redis");
    if (roots == NULL) return;
    struct mirrorRoots own;
    identify(&own);
    if (own.build != roots->build || memcmp(own.types,roots->types,sizeof(own.types)))
        die("the region was written by another build: start that one");
    dictSetHashFunctionSeed(roots->seed);
}

/* The databases as they are now, for the next checkpoint: commands exchange whole ones. */
static void noteDatabases(void) {
    for (int j = 0; j < server.dbnum; j++) {
        roots->db[j].dict = server.db[j].dict;
        roots->db[j].expires = server.db[j].expires;
        roots->db[j].avg_ttl = server.db[j].avg_ttl;
    }
}

static void newDatabases(void) {
    roots = rv_mirror_calloc(region,1,sizeof(*roots)+sizeof(roots->db[0])*server.dbnum);
    if (roots == NULL) die(rv_mirror_error());
    identify(roots);
    memcpy(roots->seed,dictGetHashFunctionSeed(),sizeof(roots->seed));
    for (int j = 0; j < server.dbnum; j++) {
        dictRelease(server.db[j].dict);
        dictRelease(server.db[j].expires);
        server.db[j].dict = dictCreate(&dbDictType,NULL);
        server.db[j].expires = dictCreate(&dbExpiresDictType,NULL);
    }
    for (int j = 0; j < OBJ_SHARED_INTEGERS; j++) {
        roots->integers[j] = makeObjectShared(createObject(OBJ_STRING,(void*)(long)j));
        roots->integers[j]->encoding = OBJ_ENCODING_INT;
    }
    roots->dbnum = server.dbnum;
    noteDatabases();
    if (rv_mirror_set_root(region,"redis",roots) < 0) die(rv_mirror_error());
}

static void oldDatabases(void) {
    if (roots->dbnum != server.dbnum) die("the region has another number of databases: see 'databases' in redis.conf");
    for (int j = 0; j < server.dbnum; j++) {
        dictRelease(server.db[j].dict);
        dictRelease(server.db[j].expires);
        server.db[j].dict = roots->db[j].dict;
        server.db[j].expires = roots->db[j].expires;
        server.db[j].avg_ttl = roots->db[j].avg_ttl;
    }
    zmalloc_adopt(rv_mirror_used(region));
}

int mirrorRecover(void) {
    if (region == NULL) return 0;
    if (server.aof_state == AOF_ON || server.cluster_enabled || server.daemonize || server.sentinel_mode)
        die("a region goes with none of: appendonly, cluster-enabled, daemonize, sentinel");
    int isOld = roots != NULL;
    long long start = ustime();
    isOn = 1;
    if (isOld) oldDatabases();
    else newDatabases();
    memcpy(shared.integers,roots->integers,sizeof(shared.integers));
    if (isOld) serverLog(LL_NOTICE,"DB recovered from checkpoint %llu: %.3f seconds",
        (unsigned long long)rv_mirror_recovered(region),(float)(ustime()-start)/1000000);
    return isOld;
}

/* ------------------------------ Checkpoints ------------------------------- */

/* For tests: stores without a barrier. */
static void check(void) {
    uintptr_t at;
    if (getenv("RETROVANE_MIRROR_CHECK") == NULL) return;
    size_t pages = rv_mirror_differences(region,&at,1);
    if (pages) serverLog(LL_WARNING,"Mirror: %zu pages changed without a barrier, the first at %#lx",pages,(unsigned long)at);
}

static void ended(int isDurable) {
    saving = 0;
    server.lastbgsave_status = isDurable ? C_OK : C_ERR;
    server.rdb_save_time_last = (ustime()-startedUs)/1000000;
    if (!isDurable) {
        serverLog(LL_WARNING,"Checkpoint failed: %s",rv_mirror_error());
        return;
    }
    server.dirty -= server.dirty_before_bgsave;
    server.lastsave = time(NULL);
    serverLog(LL_NOTICE,"Checkpoint durable: %.3f seconds",(float)(ustime()-startedUs)/1000000);
}

/* Begins a checkpoint of now; the caller waits if one is under way, or is refused. */
static int64_t begin(int now) {
    check();
    noteDatabases();
    startedUs = ustime();
    server.dirty_before_bgsave = server.dirty;
    server.lastbgsave_try = time(NULL);
    return rv_mirror_checkpoint(region,now);
}

int mirrorSave(char *filename, rdbSaveInfo *rsi) {
    if (!isOn) return rdbSave(filename,rsi);
    if (saving) ended(rv_mirror_wait(region,saving,-1) >= 0);
    int64_t checkpoint = begin(0);
    int isDurable = checkpoint > 0 && rv_mirror_wait(region,checkpoint,-1) >= 0;
    ended(isDurable);
    return isDurable ? C_OK : C_ERR;
}

int mirrorSaveBackground(char *filename, rdbSaveInfo *rsi) {
    if (!isOn) return rdbSaveBackground(filename,rsi);
    /* What was written is still being brought up to date in the mirror: from mirrorCron(). */
    if (saving || !rv_mirror_is_idle(region)) {
        scheduled = 1;
        return C_OK;
    }
    saving = begin(1);
    if (saving > 0) return C_OK;
    ended(0);
    return C_ERR;
}

int mirrorIsSaving(void) { return saving || scheduled; }

void mirrorCron(void) {
    if (saving) {
        int state = rv_mirror_poll(region,saving);
        if (state != 0) ended(state > 0);
    }
    if (scheduled && !saving && rv_mirror_is_idle(region)) {
        scheduled = 0;
        mirrorSaveBackground(NULL,NULL);
    }
}
#endif
