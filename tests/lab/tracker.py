# A tracker of BitTorrent; with `make SIZE` it makes a file of bytes and its torrent.
import hashlib
import http.server
import random
import socket
import struct
import sys
import urllib.parse

PIECE = 32768
peers = {}


def make(size):
    """Writes `file` and `f.torrent`, which names the node `tracker`."""
    content = random.Random(1).randbytes(size)
    digests = b''.join(hashlib.sha1(content[at:at + PIECE]).digest() for at in range(0, size, PIECE))
    info = b'd6:lengthi%de4:name4:file12:piece lengthi%de6:pieces%d:%se' % (size, PIECE, len(digests), digests)
    announce = b'http://tracker/announce'
    with open('file', 'wb') as file:
        file.write(content)
    with open('f.torrent', 'wb') as file:
        file.write(b'd8:announce%d:%s4:info%se' % (len(announce), announce, info))


class Tracker(http.server.BaseHTTPRequestHandler):
    """Tells each peer of all others."""

    def do_GET(self):
        query = urllib.parse.parse_qs(self.path.partition('?')[2], encoding='latin-1')
        own = self.client_address[0]
        peers[own] = int(query['port'][0])
        others = [socket.inet_aton(host) + struct.pack('>H', port) for host, port in peers.items() if host != own]
        body = b'd8:intervali2e5:peers%d:%se' % (6 * len(others), b''.join(others))
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


if len(sys.argv) > 2:
    make(int(sys.argv[2]))
else:
    http.server.ThreadingHTTPServer(('', 80), Tracker).serve_forever()
