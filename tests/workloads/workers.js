// Worker threads with shared memory, the pool of libuv, and compiled code.
// Lines with ~ tell what chance decided.
'use strict';
const { Worker, isMainThread, workerData, parentPort, threadId } = require('worker_threads');
const crypto = require('crypto');
const fs = require('fs');
const zlib = require('zlib');
const { promisify } = require('util');

if (!isMainThread) {
  const cells = new Int32Array(workerData.buffer);
  for (let i = 0; i < 20000; i++) {
    Atomics.add(cells, 0, 1);
    if (i % 100 === 0) cells[1] = Math.imul(cells[1] ^ threadId, 16777619);
  }
  Atomics.add(cells, 2, 1);
  Atomics.notify(cells, 2);
  let kept = [];
  for (let i = 0; i < 100000; i++) kept.push({ i, text: `number ${i}` });
  parentPort.postMessage(kept.length);
} else {
  main().then(() => process.exit(9), (error) => { console.error(error); process.exit(1); });
}

async function main() {
  const buffer = new SharedArrayBuffer(16);
  const cells = new Int32Array(buffer);
  const lengths = await Promise.all([0, 1, 2].map(() => new Promise((resolve, reject) => {
    const worker = new Worker(__filename, { workerData: { buffer } });
    worker.on('message', resolve);
    worker.on('error', reject);
  })));
  console.log('added', cells[0], 'kept', lengths, 'ended', cells[2]);
  console.log('~ in the order', cells[1]);

  const derive = promisify(crypto.pbkdf2);
  const keys = await Promise.all([1, 2, 3, 4].map((n) => derive(`p${n}`, 'salt', 5000, 16, 'sha256')));
  console.log(keys.map((key) => key.toString('hex')).join(' '));

  const text = Buffer.from('threads '.repeat(50000));
  const packed = await promisify(zlib.gzip)(text);
  console.log('packed', (await promisify(zlib.gunzip)(packed)).equals(text));
  await Promise.all([...Array(20).keys()].map((i) => fs.promises.writeFile(`file${i}`, `${i}`)));
  const files = await Promise.all([...Array(20).keys()].map((i) => fs.promises.readFile(`file${i}`, 'utf8')));
  console.log('read', files.join(','));

  let hot = 0;
  for (let i = 0; i < 3e6; i++) hot = (hot * 31 + i) | 0;
  console.log('hot', hot);
  console.log('~', crypto.randomUUID(), Math.random(), Date.now());
}
