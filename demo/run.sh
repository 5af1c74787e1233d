#!/usr/bin/env bash
# Records a program whose bug shows once in some forty runs, until it fails;
# then replays the failure twice, and shows what led to it.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
retrovane=${1:-$here/../target/release/retrovane}
attempts_max=1000

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
export RETROVANE_HOME=$directory/traces
ulimit -c 0

gcc -g -O0 -Wall -o "$directory/sessions" "$here/sessions.c"

echo "== Recording the program until it fails =="
for attempt in $(seq $attempts_max); do
	rm -rf "$directory/trace"
	code=0
	# In braces, because the shell too says on stderr that a program crashed.
	{
		"$retrovane" record -q -o "$directory/trace" -- "$directory/sessions" >"$directory/out"
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
echo "Run $attempt died by signal $((code - 128)). It had printed:"
sed 's/^/    /' "$directory/out"

echo "== Replaying that very run, twice: the same random numbers, the same crash =="
for turn in 1 2; do
	replay_code=0
	{
		"$retrovane" replay -q "$directory/trace" >"$directory/replay.$turn"
	} 2>"$directory/err" || replay_code=$?
	sed 's/^/    /' "$directory/replay.$turn"
	echo "    exit code $replay_code"
	if ! cmp -s "$directory/out" "$directory/replay.$turn" || [ "$replay_code" -ne "$code" ]; then
		echo "The replay was not the recorded run." >&2
		exit 1
	fi
done

echo "== The last things it did =="
"$retrovane" dump "$directory/trace" | tail -n 8 | sed 's/^/    /'

echo "== The cause =="
number=$(awk 'END { print $3 }' "$directory/out")
echo "    The last session is number $number: modulo 129 that is $(printf '%u' "$number" | awk '
	{ rest = 0; for (i = 1; i <= length($0); i++) rest = (rest * 10 + substr($0, i, 1)) % 129; print rest }')."
echo "    It went into bucket 128 of a table that ends at 127, over the pointer to the log:"
grep -n "The bug" "$here/sessions.c" | sed 's/^/    line /'
