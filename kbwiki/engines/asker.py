"""One call to a chat: looked up among the replies kept, let through by the limits, written down.

Knows no task. A reply that the token limit cut is kept as cut, so that it too is paid for once.
"""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from pydantic import BaseModel

from kbwiki.engines.chat import Chat, NoReply, Reply, Stopped, Usage
from kbwiki.engines.replies import BadReply, TruncatedReply, parse_reply
from kbwiki.engines.tokens import count_tokens
from kbwiki.text.normal import counted

MAX_OUTPUT = {"extract": 8192, "write": 4096, "same": 2048, "answer": 2048, "classify-edges": 2048}
CLOSE_S = 1.0
"""How long to wait, when a run ends, for replies that are nearly there; above Patience.grace_s."""

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call for the ledger."""

    task: str
    provider: str
    model: str
    item: str
    prompt_sha: str
    status: str = "failed"
    usage: Usage = field(default_factory=Usage)
    reply_model: str = ""
    reason: str = ""
    ms: int = 0


class CallBook(Protocol):
    """Where replies are looked up, calls are admitted and written down."""

    def find(self, key: str) -> tuple[str, str] | None:
        """Return (model, reply) of a call made before, or None; a reply that was cut is empty."""
        ...

    def begin(self, call: CallRecord, input_tokens: int, output_tokens: int) -> int:
        """Write down a call that is about to be made, with the most that it may cost.

        Returns its number, for `end` or `forget`; raises BudgetError if it may cost too much.
        """
        ...

    def end(self, number: int, call: CallRecord, key: str, reply: str | None) -> None:
        """Write down what a call came to and, unless ``reply`` is None, keep it under ``key``."""
        ...

    def forget(self, number: int) -> None:
        """Strike out a call that was never sent."""
        ...

    def note(self, call: CallRecord) -> None:
        """Write down a call that was answered from the cache."""
        ...

    def drop(self, what: str) -> None:
        """Count a thing of a reply that was thrown away: quotes, links, statements."""
        ...


class Asker:
    """Asks a chat; safe to share between threads."""

    def __init__(self, chat: Chat, book: CallBook) -> None:
        self.chat = chat
        self._book = book
        self._changed = threading.Condition()
        self._n_calls = 0

    def ask(self, task: str, prompt: str, kind: type[M], item: str) -> tuple[str, M] | None:
        """Return (model, parsed reply), from the cache if it is known; None if it was cut."""
        call = CallRecord(task, self.chat.name, self.chat.model, item, prompt_sha(prompt))
        key = reply_key(call, kind)
        found = self._book.find(key)
        if found:
            # One that cannot be read, such as an import of something else, is asked for again.
            with suppress(BadReply):
                parsed = parse_reply(found[1], kind) if found[1] else None
                self._book.note(replace(call, status="cached", reply_model=found[0]))
                return None if parsed is None else (found[0], parsed)
        n_tokens = count_tokens(prompt)
        with self._under_way():
            number = self._book.begin(call, n_tokens, MAX_OUTPUT[task])
            entry = _Entry(self._book, number, key, call, n_tokens)
            return self._call(entry, prompt, kind)

    def ask_lines(self, task: str, prompt: str, item: str) -> str:
        """Return a reply of plain lines, from the cache if it is known; of one cut, whole lines."""
        call = CallRecord(task, self.chat.name, self.chat.model, item, prompt_sha(prompt))
        key = reply_key(call, None)
        found = self._book.find(key)
        if found:
            self._book.note(replace(call, status="cached", reply_model=found[0]))
            return found[1]
        n_tokens = count_tokens(prompt)
        with self._under_way():
            number = self._book.begin(call, n_tokens, MAX_OUTPUT[task])
            entry = _Entry(self._book, number, key, call, n_tokens)
            reply = self._reply(entry, prompt, None)
            text = reply.text
            if reply.truncated:
                text = text[: text.rfind("\n") + 1]
            entry.end("truncated" if reply.truncated else "ok", reply=text)
            return text

    def _reply(self, entry: "_Entry", prompt: str, kind: type[BaseModel] | None) -> Reply:
        """Return the chat's reply, its cost noted in the entry; one without a reply is ended."""
        limit = MAX_OUTPUT[entry.call.task]
        try:
            reply = self.chat.complete(prompt, kind, limit, entry.lose)
        except Stopped:
            entry.stop()
            raise
        except NoReply as error:
            entry.call = replace(entry.call, reply_model=error.model, usage=error.usage)
            entry.end("failed", error.message)
            raise
        except BaseException as error:
            entry.end("failed", getattr(error, "message", repr(error)))
            raise
        entry.call = replace(entry.call, reply_model=reply.model, usage=reply.usage, ms=reply.ms)
        return reply

    def _call(self, entry: "_Entry", prompt: str, kind: type[M]) -> tuple[str, M] | None:
        reply = self._reply(entry, prompt, kind)
        try:
            parsed = _parsed(reply, kind)
        except BadReply as error:
            entry.end("failed", error.message)
            raise
        if parsed is None:
            entry.end("truncated", reply="")
            return None
        entry.end("ok", reply=reply.text)
        return reply.model, parsed

    @contextmanager
    def _under_way(self) -> Iterator[None]:
        with self._changed:
            self._n_calls += 1
        try:
            yield
        finally:
            with self._changed:
                self._n_calls -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Give back the connections, after a moment for calls that are paid for."""
        with self._changed:
            self._changed.wait_for(lambda: self._n_calls == 0, CLOSE_S)
        self.chat.close()


@dataclass(slots=True)
class _Entry:
    """A call's line in the book, until it ends; ``n_lost`` attempts may be billed without a reply.

    Each counts with its prompt: what a provider would have replied is not known.
    """

    book: CallBook
    number: int
    key: str
    call: CallRecord
    n_tokens: int
    n_lost: int = 0

    def lose(self) -> None:
        self.n_lost += 1

    def stop(self) -> None:
        if self.n_lost:
            self.end("lost", "stopped before the reply")
        else:
            self.book.forget(self.number)

    def end(self, status: str, reason: str = "", reply: str | None = None) -> None:
        usage = self.call.usage
        if self.n_lost:
            n = usage.input_tokens + self.n_lost * self.n_tokens
            usage = replace(usage, input_tokens=n)
            lost = counted(self.n_lost, "attempt") + " without a reply, counted with the prompt"
            reason = f"{reason} ({lost})" if reason else lost
        call = replace(self.call, status=status, reason=reason, usage=usage)
        self.book.end(self.number, call, self.key, reply)


def _parsed(reply: Reply, kind: type[M]) -> M | None:
    try:
        return None if reply.truncated else parse_reply(reply.text, kind)
    except TruncatedReply:
        return None
    except (ValueError, RecursionError) as error:  # figures of 5,000 digits, 3,000 levels
        raise BadReply(f"reply: {type(error).__name__}.", "It is asked again next time.") from error


def prompt_sha(prompt: str) -> str:
    """Return the hash by which the ledger knows a prompt."""
    return hashlib.sha256(prompt.encode()).hexdigest()


def reply_key(call: CallRecord, kind: type[BaseModel] | None) -> str:
    """Return the key under which a reply is kept: task, model, prompt and parameters."""
    schema = json.dumps(kind.model_json_schema(), sort_keys=True) if kind else "lines"
    limit = str(MAX_OUTPUT[call.task])
    parts = [call.task, call.provider, call.model, call.prompt_sha, schema, limit]
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()
