"""`kbwiki serve`: the store over MCP, to many agents at once, each by its role.

The one part that knows mcp, starlette and uvicorn. What a tool does is a use case of the layers
below; here it gets arguments that were checked, a connection of its role, and a reply in bounds.
"""
