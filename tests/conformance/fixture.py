"""What the conformance suite calls by name, on kbwiki's own HTTP stack; in no wheel.

The names and replies are those that the suite's scenarios ask for.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio
import mcp_types as t
from mcp.server import Server
from mcp.server.caching import CacheHint
from mcp.shared.exceptions import MCPError

from kbwiki.server.desk import Desk, Role
from kbwiki.server.registry import INVALID, WhoAsks

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5E"
    "rkJggg=="
)
SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA="
PAUSE_S = 0.05
LACKING = -32021

Work = Callable[[Any, dict[str, Any]], Awaitable[t.CallToolResult]]


def said(text: str) -> t.TextContent:
    """A text."""
    return t.TextContent(text=text)


def embedded(uri: str, text: str, kind: str = "text/plain") -> t.EmbeddedResource:
    """A resource in a message."""
    return t.EmbeddedResource(resource=t.TextResourceContents(uri=uri, mime_type=kind, text=text))


IMAGE = t.ImageContent(data=PIXEL, mime_type="image/png")


def always(*content: Any, is_error: bool = False) -> Work:
    """A tool whose reply is always the same."""

    async def work(ctx: Any, args: dict[str, Any]) -> t.CallToolResult:
        return t.CallToolResult(content=list(content), is_error=is_error)

    return work


async def log_thrice(ctx: Any, args: dict[str, Any]) -> t.CallToolResult:
    """Send three log messages while at work."""
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.session.send_log_message(
            level="info", data=text, related_request_id=ctx.request_id
        )
        await anyio.sleep(PAUSE_S)
    return t.CallToolResult(content=[said("Logged.")])


async def progress(ctx: Any, args: dict[str, Any]) -> t.CallToolResult:
    """Report progress while at work."""
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100)
        await anyio.sleep(PAUSE_S)
    return t.CallToolResult(content=[said("Done.")])


async def sample(ctx: Any, args: dict[str, Any]) -> t.CallToolResult:
    """Ask the client's model."""
    question = t.SamplingMessage(role="user", content=said(args["prompt"]))
    reply = await ctx.session.create_message(
        messages=[question], max_tokens=100, related_request_id=ctx.request_id
    )
    return t.CallToolResult(content=[said(f"LLM response: {reply.content.text}")])


def ask(schema: dict[str, Any], begin: str, message: str = "Please fill this in.") -> Work:
    """A tool that asks the client's user to fill in a form."""

    async def work(ctx: Any, args: dict[str, Any]) -> t.CallToolResult:
        reply = await ctx.session.elicit_form(
            message=args.get("message", message),
            requested_schema=schema,
            related_request_id=ctx.request_id,
        )
        told = f"{begin}: action={reply.action}, content={json.dumps(reply.content)}"
        return t.CallToolResult(content=[said(told)])

    return work


async def need_sampling(ctx: Any, args: dict[str, Any]) -> t.CallToolResult:
    """Refuse a client that did not say that it has a model."""
    if ctx.session.check_client_capability(t.ClientCapabilities(sampling=t.SamplingCapability())):
        return t.CallToolResult(content=[said("The client has a model.")])
    needed = {"requiredCapabilities": {"sampling": {}}}
    raise MCPError(code=LACKING, message="The client has to have a model.", data=needed)


async def cut_and_go_on(ctx: Any, args: dict[str, Any]) -> t.CallToolResult:
    """Close the stream, so that the client has to resume it for the reply."""
    if ctx.close_sse_stream:
        await ctx.close_sse_stream()
    await anyio.sleep(4 * PAUSE_S)
    return t.CallToolResult(content=[said("Resumed.")])


def form(**properties: Any) -> dict[str, Any]:
    """A schema of an object."""
    return {"type": "object", "properties": properties}


def _titled(word: str) -> list[dict[str, str]]:
    numbers = ("First", "Second", "Third")
    return [{"const": f"value{n}", "title": f"{name} {word}"} for n, name in enumerate(numbers, 1)]


TEXT = {"type": "string"}
_OPTIONS = ["option1", "option2", "option3"]
DEFAULTS = form(
    name={**TEXT, "default": "John Doe"},
    age={"type": "integer", "default": 30},
    score={"type": "number", "default": 95.5},
    status={**TEXT, "enum": ["active", "inactive", "pending"], "default": "active"},
    verified={"type": "boolean", "default": True},
)
CHOICES = form(
    untitledSingle={**TEXT, "enum": _OPTIONS},
    titledSingle={**TEXT, "oneOf": _titled("Option")},
    legacyEnum={
        **TEXT,
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    untitledMulti={"type": "array", "items": {**TEXT, "enum": _OPTIONS}},
    titledMulti={"type": "array", "items": {"anyOf": _titled("Choice")}},
)
RICH = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$defs": {"address": {"$anchor": "addressDef", **form(street=TEXT, city=TEXT)}},
    **form(
        name=TEXT,
        address={"$ref": "#/$defs/address"},
        contactMethod={**TEXT, "enum": ["phone", "email"]},
        phone=TEXT,
        email=TEXT,
    ),
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
PERSON = {**form(username=TEXT, email=TEXT), "required": ["username", "email"]}


def _taking(name: str) -> dict[str, Any]:
    return {**form(**{name: TEXT}), "required": [name]}


MIXED = (
    said("Multiple content types test:"),
    IMAGE,
    embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
)
ERROR = said("This tool intentionally returns an error for testing")
TOOLS: dict[str, tuple[dict[str, Any], Work]] = {
    "test_simple_text": (
        form(), always(said("This is a simple text response for testing.")),
    ),
    "test_image_content": (form(), always(IMAGE)),
    "test_audio_content": (
        form(), always(t.AudioContent(data=SILENCE, mime_type="audio/wav")),
    ),
    "test_embedded_resource": (
        form(),
        always(embedded("test://embedded-resource", "This is an embedded resource content.")),
    ),
    "test_multiple_content_types": (form(), always(*MIXED)),
    "test_tool_with_logging": (form(), log_thrice),
    "test_tool_with_progress": (form(), progress),
    "test_reconnection": (form(), cut_and_go_on),
    "test_missing_capability": (form(), need_sampling),
    "test_streaming_elicitation": (form(), progress),
    "test_logging_tool": (form(), log_thrice),
    "test_error_handling": (form(), always(ERROR, is_error=True)),
    "test_sampling": (_taking("prompt"), sample),
    "test_elicitation": (_taking("message"), ask(PERSON, "User response")),
    "test_elicitation_sep1034_defaults": (form(), ask(DEFAULTS, "Elicitation completed")),
    "test_elicitation_sep1330_enums": (form(), ask(CHOICES, "Elicitation completed")),
    "json_schema_2020_12_tool": (RICH, always(said("ok"))),
}  # fmt: skip


def _user(*content: Any) -> list[t.PromptMessage]:
    return [t.PromptMessage(role="user", content=one) for one in content]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt: the names of its arguments, and what it says."""

    arguments: tuple[str, ...]
    messages: Callable[[dict[str, str]], list[t.PromptMessage]]


PROMPTS = {
    "test_simple_prompt": Prompt((), lambda a: _user(said("This is a simple prompt for testing."))),
    "test_prompt_with_arguments": Prompt(
        ("arg1", "arg2"),
        lambda a: _user(said(f"Prompt with arguments: arg1='{a['arg1']}', arg2='{a['arg2']}'")),
    ),
    "test_prompt_with_embedded_resource": Prompt(
        ("resourceUri",),
        lambda a: _user(
            embedded(a["resourceUri"], "Embedded resource content for testing."),
            said("Please process the embedded resource above."),
        ),
    ),
    "test_prompt_with_image": Prompt(
        (), lambda a: _user(IMAGE, said("Please analyze the image above."))
    ),
}

RESOURCES = {
    "test://static-text": t.TextResourceContents(
        uri="test://static-text",
        mime_type="text/plain",
        text="This is the content of the static text resource.",
    ),
    "test://static-binary": t.BlobResourceContents(
        uri="test://static-binary", mime_type="image/png", blob=PIXEL
    ),
    "test://watched-resource": t.TextResourceContents(
        uri="test://watched-resource", mime_type="text/plain", text="Watch me."
    ),
}
_BEGIN, _END = "test://template/", "/data"


def build_fixture(desk: Desk, role: Role, who: WhoAsks) -> Server[Any]:
    """Return the server that the suite asks; what it says does not depend on who asks."""
    private = CacheHint(ttl_ms=60_000, scope="private")
    lists = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
    return Server(
        "conformance",
        version="1",
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
        on_list_resources=_list_resources,
        on_list_resource_templates=_list_templates,
        on_read_resource=_read_resource,
        on_subscribe_resource=_nothing,
        on_unsubscribe_resource=_nothing,
        on_list_prompts=_list_prompts,
        on_get_prompt=_get_prompt,
        on_completion=_complete,
        on_set_logging_level=_nothing,
        get_tool_input_schema=lambda name: TOOLS[name][0] if name in TOOLS else None,
        cache_hints=dict.fromkeys((*lists, "resources/read"), private),
    )


async def _list_tools(ctx: Any, params: Any) -> t.ListToolsResult:
    tools = [
        t.Tool(name=name, description=name, input_schema=schema)
        for name, (schema, _) in TOOLS.items()
    ]
    return t.ListToolsResult(tools=tools)


async def _call_tool(ctx: Any, params: t.CallToolRequestParams) -> t.CallToolResult:
    if params.name not in TOOLS:
        raise MCPError(code=INVALID, message=f"Unknown tool: {params.name}")
    return await TOOLS[params.name][1](ctx, params.arguments or {})


async def _list_resources(ctx: Any, params: Any) -> t.ListResourcesResult:
    resources = [
        t.Resource(uri=uri, name=uri, mime_type=contents.mime_type)
        for uri, contents in RESOURCES.items()
    ]
    return t.ListResourcesResult(resources=resources)


async def _list_templates(ctx: Any, params: Any) -> t.ListResourceTemplatesResult:
    template = t.ResourceTemplate(
        uri_template=_BEGIN + "{id}" + _END, name="data", mime_type="application/json"
    )
    return t.ListResourceTemplatesResult(resource_templates=[template])


async def _read_resource(ctx: Any, params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
    uri = str(params.uri)
    if uri in RESOURCES:
        return t.ReadResourceResult(contents=[RESOURCES[uri]])
    if not (uri.startswith(_BEGIN) and uri.endswith(_END)):
        raise MCPError(code=INVALID, message="Resource not found", data={"uri": uri})
    number = uri.removeprefix(_BEGIN).removesuffix(_END)
    told = {"id": number, "templateTest": True, "data": f"Data for ID: {number}"}
    contents = t.TextResourceContents(uri=uri, mime_type="application/json", text=json.dumps(told))
    return t.ReadResourceResult(contents=[contents])


async def _list_prompts(ctx: Any, params: Any) -> t.ListPromptsResult:
    prompts = [
        t.Prompt(
            name=name,
            description=name,
            arguments=[
                t.PromptArgument(name=arg, description=arg, required=True)
                for arg in prompt.arguments
            ],
        )
        for name, prompt in PROMPTS.items()
    ]
    return t.ListPromptsResult(prompts=prompts)


async def _get_prompt(ctx: Any, params: t.GetPromptRequestParams) -> t.GetPromptResult:
    prompt = PROMPTS.get(params.name)
    if prompt is None or set(prompt.arguments) - set(params.arguments or {}):
        raise MCPError(code=INVALID, message=f"Unknown prompt or no argument: {params.name}")
    return t.GetPromptResult(messages=prompt.messages(params.arguments or {}))


async def _complete(ctx: Any, params: Any) -> t.CompleteResult:
    values = ["paris", "park", "party"]
    return t.CompleteResult(completion=t.Completion(values=values, total=3, has_more=False))


async def _nothing(ctx: Any, params: Any) -> t.EmptyResult:
    return t.EmptyResult()
