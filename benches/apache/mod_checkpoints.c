// A module for Apache that takes three checkpoints for each request, as Flashback's
// section 6.3 did: when its connection is accepted, before it is processed, and before the
// response goes to the socket. They are discarded when the request is logged, or with the
// connection. What a process has taken, discarded and could not take it writes to the
// error log at its end.
//
// `Checkpoints each` takes them for each request, `shared` as the paper did it with
// threads: while one thread's checkpoint of a moment stands, others take none. `fork` makes
// a child that waits in place of each checkpoint, and ends it in place of the discard: what
// the paper's shadow processes cost, without a live session. `off` does nothing.
#define RETROVANE_INLINE
#include "retrovane.h"

#include "httpd.h"
#include "http_config.h"
#include "http_connection.h"
#include "http_log.h"
#include "http_protocol.h"
#include "http_request.h"
#include "util_filter.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOMENTS 3
#define FILTER "CHECKPOINTS"

enum moment { ACCEPTED, BEFORE_PROCESSING, BEFORE_RESPONSE };
enum way { OFF, EACH, SHARED, FORK };

module AP_MODULE_DECLARE_DATA checkpoints_module;
APLOG_USE_MODULE(checkpoints);

// The ids of a connection's checkpoints, plus one; 0: none.
struct taken {
	int ids[MOMENTS];
};

static enum way way = OFF;
// Of this process. Threads add to them without a lock of their own.
static long taken_count, discarded_count, failed_count, nothing_count;
static int last_error;
static int stands[MOMENTS];

static void count(long *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

// The child that waits, or -1. It takes no signals: the server's handlers are not for it.
static int fork_child(void)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid_t child = fork();
	while (child == 0)
		pause();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return child;
}

static int end_child(int child)
{
	kill(child, SIGKILL);
	pid_t ended;
	while ((ended = waitpid(child, NULL, 0)) < 0 && errno == EINTR)
		;
	return ended == child ? 0 : -1;
}

static void take(conn_rec *connection, enum moment moment)
{
	struct taken *taken = ap_get_module_config(connection->conn_config, &checkpoints_module);
	if (taken == NULL || taken->ids[moment] != 0)
		return;
	if (way == SHARED && __atomic_exchange_n(&stands[moment], 1, __ATOMIC_ACQUIRE) != 0) {
		count(&nothing_count);
		return;
	}
	int id = way == FORK ? fork_child() : rv_checkpoint();
	if (id < 0) {
		last_error = errno;
		__atomic_store_n(&stands[moment], 0, __ATOMIC_RELEASE);
		count(&failed_count);
		return;
	}
	taken->ids[moment] = id + 1;
	count(&taken_count);
}

static apr_status_t discard_all(void *data)
{
	struct taken *taken = data;
	// The latest first: what it has saved needs not be kept for others.
	for (int moment = MOMENTS - 1; moment >= 0; moment--) {
		if (taken->ids[moment] == 0)
			continue;
		int id = taken->ids[moment] - 1;
		if ((way == FORK ? end_child(id) : rv_discard(id)) == 0)
			count(&discarded_count);
		taken->ids[moment] = 0;
		__atomic_store_n(&stands[moment], 0, __ATOMIC_RELEASE);
	}
	return APR_SUCCESS;
}

static int accepted(conn_rec *connection, void *socket)
{
	(void)socket;
	if (way == OFF)
		return OK;
	struct taken *taken = apr_pcalloc(connection->pool, sizeof *taken);
	ap_set_module_config(connection->conn_config, &checkpoints_module, taken);
	apr_pool_cleanup_register(connection->pool, taken, discard_all, apr_pool_cleanup_null);
	take(connection, ACCEPTED);
	return OK;
}

static int before_processing(request_rec *request)
{
	if (way != OFF && ap_is_initial_req(request))
		take(request->connection, BEFORE_PROCESSING);
	return DECLINED;
}

static void insert_filter(request_rec *request)
{
	if (way != OFF && ap_is_initial_req(request))
		ap_add_output_filter(FILTER, NULL, request, request->connection);
}

// Behind the filter that writes the headers.
static apr_status_t before_response(ap_filter_t *filter, apr_bucket_brigade *brigade)
{
	ap_filter_t *next = filter->next;
	if (APR_BRIGADE_EMPTY(brigade))
		return ap_pass_brigade(next, brigade);
	take(filter->c, BEFORE_RESPONSE);
	ap_remove_output_filter(filter);
	return ap_pass_brigade(next, brigade);
}

static int at_end(request_rec *request)
{
	struct taken *taken = ap_get_module_config(request->connection->conn_config, &checkpoints_module);
	if (taken != NULL)
		discard_all(taken);
	return DECLINED;
}

static apr_status_t tell(void *server)
{
	ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, server,
		     "checkpoints: %ld taken, %ld discarded, %ld left out, %ld failed, last errno %d", taken_count,
		     discarded_count, nothing_count, failed_count, last_error);
	return APR_SUCCESS;
}

static void begin_child(apr_pool_t *pool, server_rec *server)
{
	if (way != OFF)
		apr_pool_cleanup_register(pool, server, tell, apr_pool_cleanup_null);
}

static const char *set_way(cmd_parms *command, void *config, const char *word)
{
	(void)command;
	(void)config;
	if (strcmp(word, "each") == 0)
		way = EACH;
	else if (strcmp(word, "shared") == 0)
		way = SHARED;
	else if (strcmp(word, "fork") == 0)
		way = FORK;
	else if (strcmp(word, "off") == 0)
		way = OFF;
	else
		return "Checkpoints is each, shared, fork or off";
	return NULL;
}

static const command_rec commands[] = {
	AP_INIT_TAKE1("Checkpoints", set_way, NULL, RSRC_CONF, "each, shared, fork or off"),
	{NULL},
};

static void register_hooks(apr_pool_t *pool)
{
	(void)pool;
	ap_hook_child_init(begin_child, NULL, NULL, APR_HOOK_MIDDLE);
	ap_hook_pre_connection(accepted, NULL, NULL, APR_HOOK_REALLY_FIRST);
	ap_hook_post_read_request(before_processing, NULL, NULL, APR_HOOK_REALLY_FIRST);
	ap_hook_insert_filter(insert_filter, NULL, NULL, APR_HOOK_LAST);
	ap_hook_log_transaction(at_end, NULL, NULL, APR_HOOK_REALLY_LAST);
	ap_register_output_filter(FILTER, before_response, NULL, AP_FTYPE_TRANSCODE);
}

module AP_MODULE_DECLARE_DATA checkpoints_module = {
	STANDARD20_MODULE_STUFF, NULL, NULL, NULL, NULL, commands, register_hooks, AP_MODULE_FLAG_NONE,
};
