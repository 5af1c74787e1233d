// Serves over TCP and UDP, and asks the lab's resolver.
const http = require('http'), dgram = require('dgram'), dns = require('dns');
http.createServer((request, answer) => setTimeout(() => answer.end('served ' + request.url), 20)).listen(80);
const socket = dgram.createSocket('udp6');
socket.on('message', (text, from) => socket.send('echo ' + text, from.port, from.address));
socket.bind(5000);
dns.resolve6('client', (error, addresses) => console.log('client is', error ? error.code : addresses[0]));
dns.resolve4('elsewhere', error => console.log('elsewhere is', error.code));
