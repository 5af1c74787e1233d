#!/usr/bin/env bash
# Records a program whose bug shows once in some forty runs, until it fails;
# deletes the program; replays the failure twice; then goes backwards from the
# crash through what was recorded, to what explains it.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
retrovane=${1:-$here/../target/release/retrovane}
attempts_max=1000

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
export RETROVANE_HOME=$directory/traces
program=$directory/sessions
trace=$directory/trace
ulimit -c 0

heading() {
	printf '\n== %s ==\n' "$*"
}

# Not position-independent, so that an address names a source line by itself.
gcc -g -O0 -Wall -no-pie -o "$program" "$here/sessions.c"
cp "$program" "$directory/with-symbols"

heading "Recording the program until it fails"
started_ns=$(date +%s%N)
for attempt in $(seq $attempts_max); do
	rm -rf "$trace"
	code=0
	# In braces, because the shell too says on stderr that a program crashed.
	{
		"$retrovane" record -q -o "$trace" -- "$program" >"$directory/out"
	} 2>"$directory/err" || code=$?
	if [ "$code" -gt 128 ]; then
		break
	fi
	if [ "$code" -ne 0 ]; then
		cat "$directory/err" >&2
		exit 1
	fi
done
if [ "$code" -le 128 ]; then
	echo "It never failed in $attempts_max runs." >&2
	exit 1
fi
took_ms=$((($(date +%s%N) - started_ns) / 1000000))
echo "Run $attempt died by signal $((code - 128)) ($took_ms ms for all runs, each recorded). It had printed:"
sed 's/^/    /' "$directory/out"

heading "Replaying that very run, twice, after the program was deleted"
rm "$program"
for turn in 1 2; do
	replay_code=0
	{
		"$retrovane" replay -q "$trace" >"$directory/replay.$turn"
	} 2>"$directory/err" || replay_code=$?
	sed 's/^/    /' "$directory/replay.$turn"
	echo "    exit code $replay_code"
	if ! cmp -s "$directory/out" "$directory/replay.$turn" || [ "$replay_code" -ne "$code" ]; then
		cat "$directory/err" >&2
		echo "The replay was not the recorded run." >&2
		exit 1
	fi
done
echo "The same random numbers, the same output, the same crash."

meaning() {
	printf '        <- %s\n' "$*"
}

# Says what a line of the dump means, seen from the crash.
logged=
explained=no
explain() {
	local address line number
	case $1 in
	*'--- SIGSEGV'*)
		address=${1##* at }
		line=$(addr2line -e "$directory/with-symbols" "$address")
		line=${line##*:}
		line=${line%% *}
		meaning "it crashed at sessions.c:$line: $(sed -n "${line}s/^[[:space:]]*//p" "$here/sessions.c")"
		;;
	*getrandom*)
		if [ -z "$logged" ]; then
			meaning "the number of a new session came in; the crash is before it is logged"
		else
			meaning "the input that led there: this is that session's number"
			explained=yes
		fi
		;;
	*'opening session'*)
		number=${1#*opening session }
		number=${number%%\\*}
		logged=$number
		meaning "the session added last: $number % 129 = $(modulo_129 "$number"), and buckets end at 127"
		;;
	esac
}

# The number has 64 bits without a sign, which the shell's have.
modulo_129() {
	local rest=0 at
	for ((at = 0; at < ${#1}; at++)); do
		rest=$(((rest * 10 + ${1:at:1}) % 129))
	done
	echo "$rest"
}

heading "Going backwards from the crash"
"$retrovane" dump -s 64 "$trace" --call signal,write,getrandom | tail -n 6 | tac >"$directory/backwards"
while read -r _ line; do
	printf '    %s\n' "$line"
	explain "$line"
	[ "$explained" = no ] || break
done <"$directory/backwards"

heading "The cause"
echo "Bucket 128 lies over the pointer to the log:"
grep -n "The bug" "$here/sessions.c" | sed 's/^/    sessions.c:/'
