r"""Read a model's reply: JSON as models write it, checked against the pydantic model asked for.

Owns the repairs (prose and fences around it, single LaTeX backslashes, inner quotes, trailing
commas) and the rule that a reply which was cut is never read as if whole. Knows no provider.
"""

import json
import re
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from kbwiki.errors import ModelError

Model = TypeVar("Model", bound=BaseModel)


class BadReply(ModelError):
    """A reply that is not what was asked for; the message quotes how it begins."""


class TruncatedReply(BadReply):
    """A reply that ends before its JSON does; ask again in smaller pieces."""


_THINKING = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_OPENING = re.compile(r"""\{(?=\s*(?:["'}]|\w+\s*:))|\[(?=\s*[\[{"\]])""")
_UP_TO_QUOTE = re.compile(r'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
_INNER_QUOTE = re.compile(r'(?<!\\)((?:\\\\)*)"')
_KEY_NEXT = re.compile(r'\s*"[^"\n]*"\s*:')
_CLOSES_KEY = re.compile(r"\s*:")
_CLOSES_VALUE = re.compile(
    rf"""\s*(?:[}}\]]|,\s*(?:["'{{\[}}\]\d-]|true|false|null|\Z)|\Z)|{_KEY_NEXT.pattern}"""
)
_DECODER = json.JSONDecoder(strict=False)

# Letters after \n, \r, \t that make a LaTeX command and no word: "\nu", but not "\nThe".
_COMMANDS = (
    "nabla|natural|ncong|ne|nearrow|neg|neq|nexists|newcommand|newline|ngeq|ni|nleq|nmid|nolimits"
    "|nonumber|not|notin|nparallel|nsubseteq|nu|nwarrow|"
    "rangle|rbrace|rbrack|rceil|rfloor|rho|right|rightarrow|rightharpoonup|rightleftharpoons"
    "|rm|rtimes|rVert|rvert|"
    "tan|tanh|tau|tbinom|text|textbf|textit|textrm|textsf|texttt|textstyle|tfrac|therefore|theta"
    "|thicksim|thinspace|tilde|times|to|top|triangle|triangledown|triangleleft|triangleright|tt"
)
_ESCAPE = re.compile(
    rf"""\\(?: (?P<pair>[\\"/]|u[0-9a-fA-F]{{4}})
            | (?P<command>(?:{_COMMANDS})(?![A-Za-z]) | [bf](?=[A-Za-z]))
            | (?P<control>[nrtbf])
            | (?P<apostrophe>')
            | (?P<other>) )""",
    re.VERBOSE,
)
_LONE_SURROGATE = re.compile(
    r"(?<!\\)((?:\\\\)*)(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)


def parse_reply(text: str, model: type[Model]) -> Model:
    """Return a reply as an instance of ``model``; unknown fields are ignored.

    A bare list is taken for the model's only required field. Raises TruncatedReply where the
    JSON does not end, BadReply for everything else that is wrong.
    """
    body = _THINKING.sub("", text.lstrip("\ufeff")).strip()
    if not body:
        raise BadReply("reply: empty.")
    body = _LONE_SURROGATE.sub(r"\1\\ufffd", _ESCAPE.sub(_unescape_latex, body))
    opening = _OPENING.search(body)
    if not opening:
        raise BadReply(_say("prose where JSON was asked for", text))
    wrong = ""
    while opening:
        value, end = _read(body, opening.start(), text)
        try:
            return _validate(value, model)
        except ValidationError as error:
            wrong = wrong or _faults(error)
        opening = _OPENING.search(body, end)
    raise BadReply(_say(wrong, text))


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a model, without what providers refuse or bill for nothing."""
    trimmed: dict[str, Any] = _trim(model.model_json_schema())
    return trimmed


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema whose objects allow no other field and require each of theirs."""
    out = {key: _closed_part(key, value) for key, value in schema.items()}
    if schema.get("type") == "object":
        out["additionalProperties"] = False
        out["required"] = list(schema.get("properties", {}))
    return out


def ask_in_words(prompt: str, schema: dict[str, Any]) -> str:
    """Return a prompt that describes the reply itself, for a provider that takes no schema."""
    described = json.dumps(schema, ensure_ascii=False)
    return f"{prompt}\n\nReply with one JSON value and nothing else. Its JSON Schema:\n{described}"


def _read(body: str, start: int, text: str) -> tuple[Any, int]:
    """Return the JSON value at ``start``, repaired where it must be, and its end."""
    try:
        return _DECODER.raw_decode(body, start)
    except json.JSONDecodeError:
        pass
    tidy, end = _tidy(body, start, text)
    try:
        return _DECODER.decode(tidy), end
    except json.JSONDecodeError:
        return _guess(tidy, text), end


def _guess(tidy: str, text: str) -> Any:
    """Return what json-repair makes of a whole value: single quotes, comments, missing commas."""
    from json_repair import loads

    try:
        value = loads(tidy, skip_json_loads=True, strict=True)
    except ValueError as error:
        raise BadReply(_say("JSON beyond repair", text)) from error
    if not isinstance(value, dict | list):
        raise BadReply(_say("JSON beyond repair", text))
    return value


def _tidy(body: str, start: int, text: str) -> tuple[str, int]:
    """Return the value from ``start`` with inner quotes escaped and trailing commas dropped.

    Brackets or a string that stay open mean that the reply was cut.
    """
    out: list[str] = []
    open_: list[str] = []
    at, is_key = start, False
    while at < len(body):
        char = body[at]
        if char == '"':
            end = _string_end(body, at + 1, is_key)
            if end is None:
                break
            out.append('"' + _INNER_QUOTE.sub(r'\1\\"', body[at + 1 : end]) + '"')
            at = end + 1
            is_key = not is_key and bool(_KEY_NEXT.match(body, at))
            continue
        if char == "…" or body.startswith("...", at):
            raise BadReply(_say("it leaves out items", text))
        if char in "{[":
            open_.append("}" if char == "{" else "]")
        elif char in "}]":
            if open_.pop() != char:
                raise BadReply(_say("its brackets do not match", text))
            _drop_comma(out)
        out.append(char)
        if not open_:
            return "".join(out), at + 1
        is_key = (char in "{," and open_[-1] == "}") or (is_key and char.isspace())
        at += 1
    raise TruncatedReply(_say("it ends before its JSON does", text), "Ask for less at once.")


def _string_end(body: str, start: int, is_key: bool) -> int | None:
    """Return the quote that ends a string: the first that JSON could go on after."""
    closes = _CLOSES_KEY if is_key else _CLOSES_VALUE
    at = start
    while found := _UP_TO_QUOTE.match(body, at):
        at = found.end()
        if body[at : at + 1] != '"':
            return None
        if closes.match(body, at + 1):
            return at
        at += 1
    return None


def _drop_comma(out: list[str]) -> None:
    kept = len(out)
    while kept and out[kept - 1].isspace():
        kept -= 1
    if kept and out[kept - 1] == ",":
        del out[kept - 1 :]


def _unescape_latex(match: re.Match[str]) -> str:
    if match["pair"] or match["control"]:
        return match[0]
    if match["apostrophe"]:
        return "'"
    return "\\" + match[0]


def _validate(value: Any, model: type[Model]) -> Model:
    if isinstance(value, list):
        required = [name for name, field in model.model_fields.items() if field.is_required()]
        if len(required) == 1 and required != ["root"]:
            value = {required[0]: value}
    return model.model_validate(value)


def _faults(error: ValidationError) -> str:
    shown = [
        f"{'.'.join(map(str, fault['loc'])) or 'reply'}: {fault['msg']}"
        for fault in error.errors(include_url=False, include_input=False)[:3]
    ]
    more = error.error_count() - len(shown)
    return "; ".join(shown) + (f" and {more} more" if more > 0 else "")


def _say(what: str, text: str) -> str:
    begins = " ".join(text[:160].split())[:80]
    return f"reply: {what}: {json.dumps(begins, ensure_ascii=False)}."


_DROPPED = {"default", "title", "pattern", "minLength", "maxLength", "examples"}


def _trim(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_trim(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key in {"properties", "$defs"}:
            out[key] = {name: _trim(part) for name, part in value.items()}
        elif key == "const":
            out["enum"] = [value]
        elif key not in _DROPPED:
            out[key] = value if key in {"required", "enum"} else _trim(value)
    return out


def _closed_part(key: str, value: Any) -> Any:
    if key in {"properties", "$defs"}:
        return {name: closed(part) for name, part in value.items()}
    if isinstance(value, dict):
        return closed(value)
    if isinstance(value, list) and key in {"anyOf", "oneOf", "allOf", "prefixItems"}:
        return [closed(part) for part in value]
    return value
