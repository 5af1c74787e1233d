# Loads for servers, each failing unless every request was answered as it should be.

# ab_clean ARGUMENTS...: all requests complete, none failed, all answers 2xx.
ab_clean() {
	local log=ab.$BASHPID
	ab -q "$@" > "$log" 2>&1 || { cat "$log" >&2; return 1; }
	if ! grep -q '^Failed requests: *0$' "$log" || grep -qE '^(Non-2xx|Write errors|Exceptions)' "$log"; then
		cat "$log" >&2
		return 1
	fi
}

# wrk_clean ARGUMENTS...: requests were answered, none with an error.
wrk_clean() {
	local log=wrk.$BASHPID
	wrk "$@" > "$log" 2>&1 || { cat "$log" >&2; return 1; }
	if ! grep -qE '^ +[1-9][0-9]* requests in' "$log" || grep -qE 'Socket errors|Non-2xx' "$log"; then
		cat "$log" >&2
		return 1
	fi
}

# same URL FILE: the answer is the file.
same() {
	curl -sSf --max-time 20 "$1" | cmp - "$2"
}

# redis_says ANSWER COMMAND...: what redis answers (on $P, the port).
redis_says() {
	local expected=$1 answer
	shift
	answer=$(redis-cli -p "$P" "$@")
	[ "$answer" = "$expected" ] || { echo "redis: $* answered $answer instead of $expected" >&2; return 1; }
}

# redis_load ARGUMENTS...: the benchmark, after which the server has counted no error.
redis_load() {
	redis-benchmark -p "$P" -q "$@" > benchmark.log 2>&1 || { cat benchmark.log >&2; return 1; }
	if grep -qi 'error' benchmark.log || ! redis-cli -p "$P" info stats | grep -q '^total_error_replies:0'; then
		cat benchmark.log >&2
		return 1
	fi
}

# pgbench_load ARGUMENTS...: no transaction failed.
pgbench_load() {
	pgbench -n "$@" > pgbench.log 2>&1 || { cat pgbench.log >&2; return 1; }
	grep -q '^number of failed transactions: 0 ' pgbench.log || { cat pgbench.log >&2; return 1; }
}

# says EXPECTED COMMAND...: what a command prints.
says() {
	local expected=$1 answer
	shift
	answer=$("$@")
	[ "$answer" = "$expected" ] || { echo "$* printed $answer instead of $expected" >&2; return 1; }
}
