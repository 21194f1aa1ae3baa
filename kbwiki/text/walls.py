"""Whether a saved web page is the page at all: an error, a login, consent or script stands there.

A long text is never taken for a wall: an article may well be about cookies or errors.
"""

import re

MAX_WALL = 1_500
"""Characters up to which a page may be a wall."""

NO_TEXT = "no main text was found in the page"
MIN_TEXT = 30
"""Characters under which a page holds nothing to read."""

_ERROR = re.compile(
    r"\b(?:404|403|500|502|503)\b.{0,20}\b(?:error|not found|forbidden|unavailable|bad gateway)"
    r"|\b(?:error|ошибка)\s+(?:404|403|500|502|503)\b|\b(?:page|file) (?:was )?not found\b"
    r"|\b(?:404|403|500|502|503)\b.{0,20}(?:ошибка|не найден|запрещ|недоступ)"
    r"|\baccess denied\b|\bforbidden\b|internal server error|service (?:temporarily )?unavailable"
    r"|bad gateway|(?:страница|файл) не найден|доступ (?:запрещ[её]н|ограничен)"
    r"|(?:сайт|сервис) (?:временно )?недоступен|внутренняя ошибка сервера",
    re.IGNORECASE,
)
_ROBOT = re.compile(
    r"just a moment|attention required|are you (?:a )?(?:robot|human)|verify(?:ing)? you are human"
    r"|captcha|checking your browser|вы не робот|подтвердите,? что вы (?:не робот|человек)"
    r"|капч[ауи]",
    re.IGNORECASE,
)
_SCRIPT = re.compile(
    r"(?:enable|requires?|turn on) javascript|javascript is (?:disabled|required)"
    r"|(?:включите|необходим|требуется) javascript|javascript (?:отключ[её]н|выключен)",
    re.IGNORECASE,
)
_LOGIN = re.compile(
    r"(?:sign|log) in to (?:continue|read|view|access|your)|please (?:sign|log) in"
    r"|subscribe to (?:continue|read|keep reading)|create (?:a free|an) account to"
    r"|войдите,? (?:чтобы|в (?:аккаунт|систему|уч[её]тную))|авторизуйтесь"
    r"|(?:требуется|необходима) (?:авторизация|регистрация|подписка)"
    r"|подпишитесь,? чтобы|оформите подписку|только для (?:подписчиков|зарегистрированных)",
    re.IGNORECASE,
)
_PASSWORD = re.compile(r"<input[^>]+type\s*=\s*[\"']?password", re.IGNORECASE)
_COOKIE = re.compile(
    r"cookie|\bconsent\b|privacy policy|\bgdpr\b|куки|файл\w* кук|согласи|политик\w+ конфиденц"
    r"|персональн\w+ данн",
    re.IGNORECASE,
)


def wall(title: str, text: str, html: str) -> str:
    """Return what a page is instead of an article, or an empty string.

    ``text`` is what was read of it, or all its words where nothing was.
    """
    if len(text) > MAX_WALL:
        return ""
    told = f"{title}\n{text}"
    signs = {
        "it is an error page": _ERROR.search(f"{title}\n{text[:200]}"),
        "it is a check against robots": _ROBOT.search(told),
        "it needs JavaScript": _SCRIPT.search(told),
        "it is a login page": _LOGIN.search(told) or _PASSWORD.search(html),
        "it is a cookie wall": _is_about_cookies(text),
        NO_TEXT: len(text) < MIN_TEXT,
    }
    return next((what for what, is_seen in signs.items() if is_seen), "")


def _is_about_cookies(text: str) -> bool:
    parts = [part for part in re.split(r"(?<=[.!?])\s+|\n+", text) if part.strip()]
    about = sum(len(part) for part in parts if _COOKIE.search(part))
    return about > 0 and about >= 0.4 * sum(map(len, parts))
