#!/usr/bin/env bash
# run.sh [FOLDER]: builds Redis with its databases in a region, loads a million keys, kills it
# while it writes, and looks at every key when it is back. Another run uses what was built.
set -euo pipefail

here=$(dirname "$(realpath "$0")")
folder=${1:-${CARGO_TARGET_DIR:-$here/../../target}/demo-mirror}
missing=$("$here/build" --missing)
if [ -n "$missing" ]; then
	printf 'Missing, so that the demo cannot run:\n%s\n' "$missing" >&2
	exit 1
fi
mkdir -p "$folder"
[ -e "$folder/redis-server-mirror" ] || "$here/build" "$folder"
exec python3 "$here/session.py" "$folder/redis-server-mirror" "$folder" --keys 1000000 --rounds 5
