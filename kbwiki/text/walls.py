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
    r"|(?:сайт|сервис) (?:временно )?недоступен|внутренняя ошибка сервера"
    r"|(?:page|link|resource|article) (?:you \w+ \w+ )?(?:doesn[’']?t|does not|no longer) exist"
    r"|\bno longer available\b|something went wrong|gateway time-?out"
    r"|(?:так(?:ой|ая)|эта|запрашиваемая|запрошенная) страниц[аы] (?:нет|не существует|удалена)"
    r"|что-то пошло не так|(?:ведутся|проводятся) технические работы"
    r"|domain (?:name )?is (?:for sale|parked)|домен (?:продаётся|продается|припаркован)"
    r"|welcome to nginx|apache2 \w+ default page|\bit works!",
    re.IGNORECASE,
)
_ROBOT = re.compile(
    r"just a moment|attention required|are you (?:a )?(?:robot|human)|verify(?:ing)? you are human"
    r"|(?:complete|solve|enter|pass|fill)\b.{0,30}captcha|checking your browser|unusual traffic"
    r"|вы не робот|подтвердите,? что вы (?:не робот|человек)|похожи на автоматические"
    r"|(?:введ|ввести|пройд|решит)\w*.{0,30}капч|проверка браузера",
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
    r"|подпишитесь,? чтобы|оформите подписку|только для (?:подписчиков|зарегистрированных)"
    r"|войдите или зарегистрируйтесь|(?:доступ\w*|читать) только по подписке"
    r"|(?:only )?available (?:only )?to subscribers|already a (?:subscriber|member)\?"
    r"|access through your institution|purchase (?:pdf|access)|rent this article",
    re.IGNORECASE,
)
_PASSWORD = re.compile(r"<input[^>]+type\s*=\s*[\"']?password", re.IGNORECASE)
_COOKIE = re.compile(
    r"cookie|\bconsent\b|privacy|\bgdpr\b|personal data|your choices|куки|файл\w* кук"
    r"|согласи\w* (?:на|с)\b|политик\w+ конфиденц|персональн\w+ данн",
    re.IGNORECASE,
)
_TO_READER = re.compile(
    r"\b(?:we|our|us|you|your|accept|this (?:web)?site)\b"
    r"|\b(?:мы|наш\w*|вы|вам|ваш\w*|принять|продолжая|этот сайт|на (?:этом )?сайте)\b",
    re.IGNORECASE,
)
"""Who asks for consent speaks to whoever reads; an article on cookies seldom does."""


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
    is_asked = _TO_READER.search(text) is not None
    return is_asked and about > 0 and about >= 0.4 * sum(map(len, parts))
