"""The least that an MCP server is, to compare with: a low-level Server with one trivial tool.

Usage: minimal_server.py PORT.
"""

import contextlib
import sys
from collections.abc import AsyncIterator
from typing import Any

import mcp_types as t
import uvicorn
from mcp.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.routing import Route

SCHEMA = {"type": "object", "properties": {"page": {"type": "string"}}}


async def _list_tools(ctx: Any, params: Any) -> t.ListToolsResult:
    tool = t.Tool(name="wiki_read", description="Nothing.", input_schema=SCHEMA)
    return t.ListToolsResult(tools=[tool])


async def _call_tool(ctx: Any, params: t.CallToolRequestParams) -> t.CallToolResult:
    return t.CallToolResult(content=[t.TextContent(text="ok")], structured_content={"ok": True})


class _Endpoint:
    def __init__(self, sessions: StreamableHTTPSessionManager) -> None:
        self._sessions = sessions

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._sessions.handle_request(scope, receive, send)


def main() -> None:
    """Serve."""
    server: Server[Any] = Server(
        "minimal",
        version="1",
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
        get_tool_input_schema={"wiki_read": SCHEMA}.get,
    )
    sessions = StreamableHTTPSessionManager(server)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with sessions.run():
            yield

    app = Starlette(routes=[Route("/mcp", _Endpoint(sessions))], lifespan=lifespan)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error", access_log=False)


if __name__ == "__main__":
    main()
