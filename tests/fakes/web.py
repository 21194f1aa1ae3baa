"""A real HTTP server in a thread, whose answers a test writes byte by byte where it wants to."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[BaseHTTPRequestHandler], None]


class Web:
    """Pages by path; ``asked`` is every path that was asked for, with its Host header."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.port = server.server_address[1]
        self.pages: dict[str, Answer] = {}
        self.asked: list[tuple[str, str]] = []
        self.over = threading.Event()

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        """The address of a path."""
        return f"http://{host}:{self.port}{path}"

    def page(self, path: str, body: bytes, kind: str = "text/html", **headers: str) -> str:
        """Serve a body, and return its address."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            usual = {"Content_Type": kind, "Content_Length": str(len(body))}
            for name, value in (usual | headers).items():
                handler.send_header(name.replace("_", "-"), value)
            handler.end_headers()
            handler.wfile.write(body)

        self.pages[path] = answer
        return self.url(path)

    def redirect(self, path: str, target: str, status: int = 302) -> str:
        """Serve a redirect, and return its address."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(status)
            # As a browser's server sends letters: bytes of UTF-8.
            handler._headers_buffer.append(f"Location: {target}\r\n".encode())
            handler.end_headers()

        self.pages[path] = answer
        return self.url(path)

    def raw(self, path: str, *pieces: bytes, every_s: float = 0.0) -> str:
        """Serve bytes as they are, status line and all, piece by piece; the last one for ever."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            with contextlib.suppress(OSError):
                for piece in pieces:
                    handler.wfile.write(piece)
                while every_s and not self.over.wait(every_s):
                    handler.wfile.write(pieces[-1])

        self.pages[path] = answer
        return self.url(path)


@contextlib.contextmanager
def serve_web(host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> Iterator[Web]:
    """Yield a server on a free port, stopped at the end."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            web.asked.append((self.path, self.headers.get("Host", "")))
            answer = web.pages.get(self.path)
            if answer is None:
                self.send_error(404)
            else:
                answer(self)

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    server = Server((host, 0), Handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    web = Web(server)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield web
    finally:
        web.over.set()
        server.shutdown()
        thread.join()
        server.server_close()
