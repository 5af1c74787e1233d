// Two processes that serve by one listener (node's cluster), and a client that asks ten times at once.
const cluster = require('cluster');
const http = require('http');
if (process.argv[2] === 'client') {
  setTimeout(async () => {
    const ask = (i) => fetch(`http://server/${i}`).then((answer) => answer.text());
    console.log((await Promise.all([...Array(10).keys()].map(ask))).join(' '));
    process.exit(0);
  }, 3000);
} else if (cluster.isPrimary) {
  cluster.fork();
  cluster.fork();
} else {
  http.createServer((ask, answer) => setTimeout(() => answer.end(`page${ask.url}`), 10)).listen(80);
}
