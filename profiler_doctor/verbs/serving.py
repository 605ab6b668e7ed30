"""One file, served on the loopback address until it has been fetched whole."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event
from typing import BinaryIO

LOOPBACK = "127.0.0.1"
VIEWER = "https://ui.perfetto.dev"
"""The one page of another origin that may read the file."""
PATIENCE_S = 0.2


@dataclass(frozen=True)
class Served:
    """What there is to fetch: one file at its own path, and small pages of ours beside it."""

    file: Path
    name: str
    pages: Mapping[str, bytes] = field(default_factory=dict)
    """Path, such as "/", to HTML."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int, served: Served) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.served, self.fetched = served, Event()


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:  # the base class's name
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_OPTIONS(self) -> None:
        """A browser asks first whether a public page may read from this machine."""
        if self._meant_for_us():
            self._head(HTTPStatus.NO_CONTENT, "text/plain", 0)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
        """Say nothing: the verb tells what happens."""

    def _answer(self, with_body: bool) -> None:
        if not self._meant_for_us():
            return
        path, served = self.path.partition("?")[0], self.server.served
        if path in served.pages:
            self._head(HTTPStatus.OK, "text/html; charset=utf-8", len(served.pages[path]))
            if with_body:
                self.wfile.write(served.pages[path])
        elif path == f"/{served.name}":
            with served.file.open("rb") as file:
                self._send_file(file, with_body)
        else:
            self._head(HTTPStatus.NOT_FOUND, "text/plain", 0)

    def _send_file(self, file: BinaryIO, with_body: bool) -> None:
        self._head(HTTPStatus.OK, "application/octet-stream", self.server.served.file.stat().st_size)
        if with_body:
            with contextlib.suppress(ConnectionError):
                shutil.copyfileobj(file, self.wfile)
                self.wfile.flush()
                self.server.fetched.set()

    def _meant_for_us(self) -> bool:
        """Whether the request names this address: another name that leads here is some page's trick."""
        port = self.server.server_address[1]
        if self.headers.get("Host") in (f"{LOOPBACK}:{port}", f"localhost:{port}"):
            return True
        self._head(HTTPStatus.FORBIDDEN, "text/plain", 0)
        return False

    def _head(self, status: HTTPStatus, kind: str, length: int) -> None:
        self.send_response(status)
        self.send_header("Access-Control-Allow-Origin", VIEWER)
        self.send_header("Access-Control-Allow-Private-Network", "true")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length))
        self.end_headers()


class OneFile:
    """Serves from the moment it is made. Raises OSError where the port is taken (0: any free one)."""

    def __init__(self, port: int, served: Served) -> None:
        self._server = _Server(port, served)
        self.port: int = self._server.server_address[1]

    def wait(self) -> bool:
        """Serve until the file has been fetched; False when interrupted before."""
        self._server.timeout = PATIENCE_S
        try:
            while not self._server.fetched.is_set():
                self._server.handle_request()
        except KeyboardInterrupt:
            return False
        finally:
            self._server.server_close()
        return True
