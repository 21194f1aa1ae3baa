"""Running the server: over HTTP until it is asked to stop, or on standard input and output."""

import asyncio
import logging
import ssl
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import uvicorn
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, RequestId
from sse_starlette.sse import AppStatus

from kbwiki.errors import ConfigError
from kbwiki.server.app import App
from kbwiki.server.desk import Desk, Role
from kbwiki.server.registry import build_server, caller_of

DRAIN_S = 10
"""How long calls under way may take after SIGTERM."""
STDIO_DRAIN_S = 30
"""How long they may take after a client has closed standard input; one in a hurry sends SIGTERM."""


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


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server listens; ``proxies`` are addresses whose word on the client counts."""

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None
    proxies: Sequence[str] = ()


def settle(app: App, address: Address) -> uvicorn.Config:
    """Return how uvicorn is to serve an app."""
    return uvicorn.Config(
        app,
        host=address.host,
        port=address.port,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=DRAIN_S + 2,
        ssl_certfile=str(address.certificate) if address.certificate else None,
        ssl_keyfile=str(address.key) if address.key else None,
        # By default it believes whatever comes from this machine, and the environment.
        proxy_headers=bool(address.proxies),
        forwarded_allow_ips=list(address.proxies),
    )


def serve_http(app: App, address: Address) -> None:
    """Serve until SIGTERM or Ctrl-C; raise ConfigError where the address cannot be had."""
    # Idle streams would else end, and calls with them, before the calls are answered.
    AppStatus.disable_automatic_graceful_drain()  # type: ignore[no-untyped-call]  # sse-starlette gives it none
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    server = _Server(settle(app, address), app)
    where = f"{address.host}:{address.port}"
    try:
        server.run()
    except (OSError, ssl.SSLError) as error:
        is_tls = address.certificate is not None
        hint = "Look at --tls-cert and --tls-key." if is_tls else "Choose another --port."
        raise ConfigError(f"serve: {where}: {error}.", hint) from error
    except KeyboardInterrupt:
        pass
    except SystemExit as error:
        # uvicorn has told on standard error why it could not start.
        if not server.started:
            raise ConfigError(
                f"serve: {where} cannot be had.", "Is it taken? Choose another --port."
            ) from error


def serve_stdio(desk: Desk, role: Role, user: str, handshake_only: bool) -> None:
    """Serve one client on standard input and output until it closes them."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    server = build_server(desk, role, lambda ctx: caller_of(ctx, role, user))

    async def main() -> None:
        async with stdio_server() as streams, _answered(*streams) as (reader, writer):
            if handshake_only:
                await _serve_handshake(server, reader, writer)
            else:
                await server.run(reader, writer, server.create_initialization_options())

    anyio.run(main)


@asynccontextmanager
async def _answered(reader: Any, writer: Any) -> AsyncIterator[tuple[Any, Any]]:
    """Yield streams of which the first ends when what was asked is answered, or some time after.

    The SDK's loop drops the calls under way as soon as a client has closed its end.
    """
    to_server, from_client = anyio.create_memory_object_stream[Any](0)
    to_client, from_server = anyio.create_memory_object_stream[Any](0)
    open_ids: set[RequestId | None] = set()
    changed = anyio.Event()

    async def ask() -> None:
        async with to_server, reader:
            async for item in reader:
                message = getattr(item, "message", None)
                if isinstance(message, JSONRPCRequest):
                    open_ids.add(message.id)
                elif (
                    isinstance(message, JSONRPCNotification)
                    and message.method == "notifications/cancelled"
                ):
                    # Who cancels a call gets no answer to it. The SDK takes "1" for 1 here.
                    gone = (message.params or {}).get("requestId")
                    same = [each for each in open_ids if each == gone]
                    alike = [each for each in open_ids if str(each) == str(gone)]
                    open_ids.difference_update(same or alike)
                await to_server.send(item)
            with anyio.move_on_after(STDIO_DRAIN_S):
                while open_ids:
                    await changed.wait()

    async def tell() -> None:
        nonlocal changed
        async with writer, from_server:
            async for item in from_server:
                await writer.send(item)
                if isinstance(item.message, JSONRPCResponse | JSONRPCError):
                    open_ids.discard(item.message.id)
                    changed.set()
                    changed = anyio.Event()

    async with anyio.create_task_group() as telling:
        telling.start_soon(tell)
        async with anyio.create_task_group() as asking, from_client:
            asking.start_soon(ask)
            yield from_client, to_client
            asking.cancel_scope.cancel()
        await to_client.aclose()


async def _serve_handshake(server: Any, reader: Any, writer: Any) -> None:
    """Serve the protocols before 2026-07-28 alone: some clients probe the new one, then ask so."""
    async with server.lifespan(server) as state:
        await serve_loop(server, reader, writer, lifespan_state=state)
