"""Running the server: over HTTP until it is asked to stop, or on standard input and output."""

import asyncio
import logging
import ssl
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import uvicorn
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server
from sse_starlette.sse import AppStatus

from kbwiki.errors import ConfigError
from kbwiki.server.app import App
from kbwiki.server.desk import Desk, Role
from kbwiki.server.registry import build_server, caller_of

DRAIN_S = 10
"""How long calls under way may take after SIGTERM."""


class _Server(uvicorn.Server):
    """Answers what is under way before it ends idle streams, and then itself."""

    def __init__(self, config: uvicorn.Config, app: App) -> None:
        super().__init__(config)
        self._kbwiki = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop taking connections; a second signal ends all at once."""
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True
        loop = asyncio.get_event_loop()
        loop.call_soon_threadsafe(lambda: asyncio.ensure_future(self._drain()))

    async def _drain(self) -> None:
        for _ in range(DRAIN_S * 10):
            if not self._kbwiki.n_posts:
                break
            await asyncio.sleep(0.1)
        AppStatus.should_exit = True


def serve_http(app: App, host: str, port: int, certificate: Path | None, key: Path | None) -> None:
    """Serve until SIGTERM or Ctrl-C; raise ConfigError where the address cannot be had."""
    # Idle streams would else end, and calls with them, before the calls are answered.
    AppStatus.disable_automatic_graceful_drain()  # type: ignore[no-untyped-call]  # sse-starlette gives it none
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=DRAIN_S + 2,
        ssl_certfile=str(certificate) if certificate else None,
        ssl_keyfile=str(key) if key else None,
    )
    server = _Server(config, app)
    try:
        server.run()
    except (OSError, ssl.SSLError) as error:
        hint = "Look at --tls-cert and --tls-key." if certificate else "Choose another --port."
        raise ConfigError(f"serve: {host}:{port}: {error}.", hint) from error
    except KeyboardInterrupt:
        pass
    except SystemExit as error:
        # uvicorn has told on standard error why it could not start.
        if not server.started:
            raise ConfigError(
                f"serve: {host}:{port} cannot be had.", "Is it taken? Choose another --port."
            ) from error


def serve_stdio(desk: Desk, role: Role, user: str, handshake_only: bool) -> None:
    """Serve one client on standard input and output until it closes them."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    server = build_server(desk, role, lambda ctx: caller_of(ctx, role, user))

    async def main() -> None:
        async with stdio_server() as (reader, writer):
            if handshake_only:
                await _serve_handshake(server, reader, writer)
            else:
                await server.run(reader, writer, server.create_initialization_options())

    anyio.run(main)


async def _serve_handshake(server: Any, reader: Any, writer: Any) -> None:
    """Serve the protocols before 2026-07-28 alone: some clients probe the new one, then ask so."""
    async with server.lifespan(server) as state:
        await serve_loop(server, reader, writer, lifespan_state=state)
