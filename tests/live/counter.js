// A counter goes back three times, in the middle of the event loop's work, and timers go
// on firing; then it is replayed. The addon is native/node.c.
// prints: after 0 rollbacks: 10
// prints: after 1 rollbacks: 10
// prints: after 2 rollbacks: 10
// prints: after 3 rollbacks: 10
// prints: replayed: 20
// prints: unknown: -2
'use strict';
const fs = require('fs');
const call = require(process.env.RETROVANE_ADDON);
const [CHECKPOINT, DISCARD, ROLLBACK, REPLAY, ROLLBACKS] = [0, 1, 2, 3, 4];

// At once and whole, whatever stdout is.
const say = (text) => fs.writeSync(1, text + '\n');

function must(operation, id) {
	const result = call(operation, id);
	if (result === -38) {
		say('no retrovane');
		process.exit(77);
	}
	if (result < 0) {
		say(`FAIL ${operation}: ${result}`);
		process.exit(99);
	}
	return result;
}

let counter = 0;
const soon = () => new Promise((resolve) => setTimeout(() => { counter++; resolve(); }, 1));

async function work() {
	for (let i = 0; i < 10; i++) await soon();
}

(async () => {
	let id = must(CHECKPOINT, 0);
	const count = must(ROLLBACKS, id);
	await work();
	say(`after ${count} rollbacks: ${counter}`);
	if (count < 3) must(ROLLBACK, id);
	must(DISCARD, id);

	id = must(CHECKPOINT, 0);
	await work();
	must(REPLAY, id);
	say(`replayed: ${counter}`);
	must(DISCARD, id);
	say(`unknown: ${call(ROLLBACK, id)}`);
})();
