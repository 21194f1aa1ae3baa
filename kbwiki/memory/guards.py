"""What a memory may hold: cleaned for its vector, no secrets, no echo of what was just recalled."""

import re

from kbwiki.errors import InputError
from kbwiki.text.normal import canonical_key

MAX_BYTES = 32 * 1024
"""UTF-8 bytes of a memory's text."""
ECHO = 0.8
"""Share of the triples of words that two texts must have in common to be near copies."""

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_NOISE = re.compile(rf"(?<![\w-])(?:{_UUID}|[0-9a-f]{{16,}})(?![\w-])", re.IGNORECASE)

_ODD = r"(?!\d+(?:[\s\"'».,;]|$))(?=[^\s\"'»]*\d|[^\s\"'»]*[a-zа-яё][A-ZА-ЯЁ])"

# Forms of their own, each given by the provider's documentation, and words that announce a secret.
_SECRETS = (
    ("a private key", re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY")),
    ("an AWS key", re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")),
    ("a Google key", re.compile(r"\bAIza[0-9A-Za-z_-]{35}")),
    ("a GitHub token", re.compile(r"\b(?:gh[pousr]_[0-9A-Za-z]{36}|github_pat_\w{22,})")),
    ("a GitLab token", re.compile(r"\bglpat-[0-9A-Za-z_-]{20}")),
    ("a Slack token", re.compile(r"\bxox[abeoprs]-[0-9A-Za-z-]{10,}")),
    ("a Stripe key", re.compile(r"\b[rs]k_(?:live|test)_[0-9A-Za-z]{16,}")),
    ("an API key", re.compile(r"\bsk-(?:[a-z]+-)*[0-9A-Za-z_-]{20,}")),
    ("a token", re.compile(r"\beyJ[0-9A-Za-z_-]{10,}\.eyJ[0-9A-Za-z_-]{10,}\.[0-9A-Za-z_-]+")),
    ("a password in a URL", re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s:/@]+:[^\s:/@*]{3,}@")),
    ("a bearer token", re.compile(r"(?i)\b(?:bearer|basic)\s+(?=\S*\d)[0-9a-z+/._~-]{16,}=*")),
    ("a token", re.compile(r"\b(?:npm_[0-9A-Za-z]{30,}|hf_[A-Za-z0-9]{30,})")),
    # A value that is more than a word or a number: letters with digits, or capitals within.
    (
        "a password",
        re.compile(
            r"(?i:[\w-]*(?:password|passwd|pwd|passphrase|secret|token|api[_ -]?key|access[_-]?key"
            r"|пароль|секрет|токен)[\w-]*)(?:\s*[:=]\s*|\s+is\s+|\s+[—-]\s+)"
            rf"[\"'«]?{_ODD}[^\s\"'»]{{6,}}"
        ),
    ),
    (
        "a password",
        re.compile(
            r"(?i:\b(?:password|passphrase|пароль))\s+(?:[^\W\d]+\s+){0,3}"
            r"(?=\S*\d)(?=\S*[^\W\d_])\S{8,}"
        ),
    ),
    ("a password", re.compile(r"(?:^|\s)-p(?=\S*\d)(?=\S*[A-Za-z])[^\s:]{8,}(?:\s|$)")),
    ("a password", re.compile(r"(?:^|\s)-u\s+[^\s:]+:\S{4,}")),
)  # fmt: skip


def cleaned(text: str) -> str:
    """Return text without UUIDs and hashes of 16 hex digits or more; nothing else is taken out.

    Ports, years, error codes, arXiv ids and short hex words tell one memory from another. A run of
    16 decimal digits or more, which is as likely a number as a hash, stays too.
    """
    kept = _NOISE.sub(lambda m: m.group() if m.group().isdecimal() else " ", text)
    return " ".join(kept.split()) or " ".join(text.split())


def check_text(text: str) -> str:
    """Return the text of a memory, trimmed; raise InputError for none or too much."""
    text = text.strip()
    if not any(c.isalnum() for c in text):
        raise InputError("remember: the text is empty.", "Say what is to be kept.")
    n_bytes = len(text.encode("utf-8", "replace"))
    if n_bytes > MAX_BYTES:
        raise InputError(
            f"remember: the text has {n_bytes:,} bytes, and a memory at most {MAX_BYTES:,}.",
            "Keep what was learnt; a document belongs into the wiki: `kbwiki ingest`.",
        )
    return text


def check_secrets(text: str) -> None:
    """Raise InputError where a text holds what looks like a key or a password."""
    for what, pattern in _SECRETS:
        if pattern.search(text):
            raise InputError(
                f"remember: the text seems to hold {what}.",
                "Leave it out; if it is none, say so: --allow-secrets, or allowSecrets.",
            )


def is_echo(text: str, of: str) -> bool:
    """Tell whether two texts say nearly the same in the same words (Broder's resemblance)."""
    one, other = _shingles(text), _shingles(of)
    return len(one & other) >= ECHO * len(one | other)


def _shingles(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", canonical_key(text))
    return {tuple(words[at : at + 3]) for at in range(max(1, len(words) - 2))}
