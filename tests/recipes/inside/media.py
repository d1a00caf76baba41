"""Has a release of vLLM fetch images as its server does, and says what became of each.

Reads JSON from standard input: `domains` (of --allowed-media-domains) and `variables`. Servers on
loopback stand for a machine of the LAN: one has an image, the other redirects there. Writes the
outcome of each URL ("image", or the name of the error), the requests that came to a server, and the
names that `inside.names` has: importing vLLM takes longer than either.
"""

import base64
import fcntl
import io
import json
import os
import socket
import struct
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from inside.names import names

PORT = 18080


def main() -> None:
    """Answer one request."""
    answer, sys.stdout = sys.stdout, sys.stderr
    request = json.load(sys.stdin)
    os.environ |= request["variables"]
    _loopback_up()
    seen: list[str] = []
    image = _image()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            moved = self.path == "/moved"
            self.send_response(302 if moved else 200)
            if moved:
                self.send_header("Location", f"http://127.0.0.1:{PORT}/elsewhere")
            self.send_header("Content-Length", str(0 if moved else len(image)))
            self.end_headers()
            self.wfile.write(b"" if moved else image)

    server = ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    from vllm.multimodal.media import MediaConnector

    connector = MediaConnector(allowed_media_domains=request["domains"])
    data = "data:image/png;base64," + base64.b64encode(image).decode()
    urls = {
        "data": data,
        "address": f"http://127.0.0.1:{PORT}/image",
        "name": f"http://localhost:{PORT}/image",
        "moved": f"http://127.0.0.1:{PORT}/moved",
        "disguised": f"http://media.invalid@127.0.0.1:{PORT}/image",
        "backslash": f"http://127.0.0.1:{PORT}\\@media.invalid/image",
        "file": "file:///etc/passwd",
    }
    outcomes = {}
    for name, url in urls.items():
        try:
            connector.fetch_image(url)
            outcomes[name] = "image"
        except Exception as error:
            outcomes[name] = type(error).__name__
    json.dump({"outcomes": outcomes, "seen": seen, "names": names()}, answer)


def _loopback_up() -> None:
    """Bring up the loopback interface of this network namespace, which is down at first."""
    with socket.socket() as any_socket:
        up = struct.pack("16sh14x", b"lo", 1)
        fcntl.ioctl(any_socket, 0x8914, up)  # SIOCSIFFLAGS, IFF_UP


def _image() -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (2, 2)).save(file, "PNG")
    return file.getvalue()


if __name__ == "__main__":
    main()
