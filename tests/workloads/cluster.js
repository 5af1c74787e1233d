// cluster.js PORT: two processes serve one port, and tell their parent how much.
'use strict';
const cluster = require('cluster');
const http = require('http');

if (cluster.isPrimary) {
  let served = 0;
  for (let i = 0; i < 2; i++) {
    cluster.fork().on('message', (count) => { served += count; });
  }
  process.on('SIGTERM', () => {
    cluster.on('exit', () => {
      if (Object.keys(cluster.workers).length === 0) {
        console.log(`served ${served}`);
        process.exit(0);
      }
    });
    for (const worker of Object.values(cluster.workers)) worker.send('stop');
  });
} else {
  let count = 0;
  const server = http.createServer((request, response) => {
    count++;
    response.end('from a worker\n');
  });
  server.listen(Number(process.argv[2]), '127.0.0.1');
  process.on('message', () => process.send(count, () => process.exit(0)));
  process.on('SIGTERM', () => {});
}
