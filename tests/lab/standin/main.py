"""`vllm serve …`: from the command line to the exit status."""

import re
import signal
import socket
import socketserver
import sys
import threading
from http.server import ThreadingHTTPServer
from queue import SimpleQueue

from standin import VERSION, arguments, core, tools
from standin.core import say
from standin.engine import Engine
from standin.server import Handler


class Server(ThreadingHTTPServer):
    """Takes connections once the engine is ready, and as many as come."""

    daemon_threads = True
    request_queue_size = 2048

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)

    def handle_error(self, *_: object) -> None:
        """Say nothing of clients that left."""


class OnSocket(Server):
    """The same on a socket of the file system, whose mode the umask says, as vLLM's."""

    address_family = socket.AF_UNIX


def main() -> int:
    """Serve. Returns the exit status, which is 0 after the death of a core, too."""
    # vLLM takes an underscore for a dash in the name of a flag.
    words = [re.sub("^--[^=]*", lambda m: m[0].replace("_", "-"), w) for w in sys.argv[1:]]
    options = arguments.parser().parse_args(words)
    print(f"version {VERSION}   model {options.model_tag}", flush=True)
    config = arguments.check(options)
    if options.headless:
        return core.headless(options)
    tools.load(options.tool_parser_plugin)
    say(f"Resolved architecture: {config['architectures'][0]}")
    say(f"Using max model len {options.max_model_len}")
    engine = Engine(options, config)
    server: Server
    if options.uds:
        Handler.disable_nagle_algorithm = False
        server = OnSocket(options.uds, Handler, bind_and_activate=False)
    else:
        server = Server((options.host or "", options.port), Handler, bind_and_activate=False)
    server.server_bind()
    Handler.engine = engine
    engine.start()
    where = f"unix:{options.uds}" if options.uds else f"http://{options.host}:{options.port}"
    say(f"Starting vLLM server on {where}")
    ends: SimpleQueue[None] = SimpleQueue()

    def terminated() -> None:
        signal.sigwait({signal.SIGTERM})
        ends.put(None)

    # A handler could be late for good: Python runs it when the main thread wakes, and a signal that
    # comes just before that thread begins to wait wakes nobody.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=terminated, daemon=True).start()
    server.server_activate()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("INFO:     Application startup complete.", flush=True)

    def follow() -> None:
        engine.follow()
        ends.put(None)

    threading.Thread(target=follow, daemon=True).start()
    ends.get()
    engine.drain()
    print("INFO:     Application shutdown complete.", flush=True)
    return 0
