// server.js PORT: an HTTP server whose sums are computed by worker threads.
'use strict';
const http = require('http');
const { Worker, isMainThread, parentPort } = require('worker_threads');

if (!isMainThread) {
  parentPort.on('message', ({ id, upTo }) => {
    let sum = 0;
    for (let i = 0; i <= upTo; i++) sum += i;
    parentPort.postMessage({ id, sum });
  });
} else {
  const waiting = new Map();
  let next = 0;
  const workers = [0, 1].map(() => {
    const worker = new Worker(__filename);
    worker.on('message', ({ id, sum }) => {
      const response = waiting.get(id);
      waiting.delete(id);
      response.end(`${sum}\n`);
    });
    return worker;
  });
  const server = http.createServer((request, response) => {
    if (request.url.startsWith('/sum/')) {
      const id = next++;
      waiting.set(id, response);
      workers[id % workers.length].postMessage({ id, upTo: Number(request.url.slice(5)) });
    } else {
      response.end(`you asked for ${request.url}\n`);
    }
  });
  server.listen(Number(process.argv[2]), '127.0.0.1');
  process.on('SIGTERM', () => {
    server.close(() => Promise.all(workers.map((worker) => worker.terminate())).then(() => process.exit(3)));
    server.closeAllConnections();
  });
}
