// The call for node: an addon with one function, call(operation, id).
#include <node_api.h>
#include <unistd.h>
#include <errno.h>

static napi_value call(napi_env env, napi_callback_info info)
{
	napi_value arguments[2], answer;
	size_t count = 2;
	int64_t operation = 0, id = 0;
	if (napi_get_cb_info(env, info, &count, arguments, NULL, NULL) != napi_ok ||
	    napi_get_value_int64(env, arguments[0], &operation) != napi_ok ||
	    napi_get_value_int64(env, arguments[1], &id) != napi_ok)
		return NULL;
	long result = syscall(0x525600 + operation, id);
	return napi_create_int64(env, result < 0 ? -errno : result, &answer) == napi_ok ? answer : NULL;
}

NAPI_MODULE_INIT()
{
	napi_value function;
	if (napi_create_function(env, "call", NAPI_AUTO_LENGTH, call, NULL, &function) != napi_ok)
		return NULL;
	return function;
}
