"""Days that a question names outright, in both languages: a field to rank by, not words.

``dateparser`` finds more, takes tens of milliseconds, and reads "may" as a date; here a date needs
a year, or a day and a month.
"""

import re
from calendar import monthrange
from datetime import UTC, date, datetime, timedelta

_MONTHS = {
    name: month
    for month, names in enumerate(
        (
            "january jan январь января январе янв", "february feb февраль февраля феврале фев",
            "march mar март марта марте", "april apr апрель апреля апреле апр", "may май мая мае",
            "june jun июнь июня июне", "july jul июль июля июле",
            "august aug август августа августе авг",
            "september sep sept сентябрь сентября сентябре сен",
            "october oct октябрь октября октябре окт", "november nov ноябрь ноября ноябре ноя",
            "december dec декабрь декабря декабре дек",
        ),
        1,
    )
    for name in names.split()
}  # fmt: skip
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DAY = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th|-?го)?"
_FORMS = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        r"(?<!\d)(?P<year>(?:19|20)\d\d)-?(?P<month>[01]\d)-?(?P<day>[0-3]\d)(?!\d)",
        r"(?<!\d)(?P<day>[0-3]?\d)\.(?P<month>[01]?\d)\.(?P<year>(?:19|20)\d\d)(?!\d)",
        rf"\b{_DAY}\s+(?:of\s+)?(?P<name>{_MONTH})\b\.?(?:,?\s+(?P<year>(?:19|20)\d\d))?",
        rf"\b(?P<name>{_MONTH})\b\.?\s+{_DAY}\b(?:,?\s+(?P<year>(?:19|20)\d\d))?",
        rf"(?<!\d\s)\b(?P<name>{_MONTH})\b\.?,?\s+(?P<year>(?:19|20)\d\d)\b",
    )
)
_RELATIVE = {
    re.compile(r"\b(?:today|сегодня)\b", re.IGNORECASE): 0,
    re.compile(r"\b(?:yesterday|вчера)\b", re.IGNORECASE): 1,
    re.compile(r"\b(?:позавчера)\b", re.IGNORECASE): 2,
}


def find_days(question: str, today: date) -> tuple[datetime, datetime] | None:
    """Return the first and the last moment (UTC) of the days that a question names, or None.

    A day without a year is the last one before or on ``today``.
    """
    spans = [
        (today - timedelta(days), today - timedelta(days))
        for pattern, days in _RELATIVE.items()
        if pattern.search(question)
    ]
    for form in _FORMS:
        for match in form.finditer(question):
            span = _span(match.groupdict(), today)
            if span:
                spans.append(span)
        if spans:
            break
    if not spans:
        return None
    first, last = min(s[0] for s in spans), max(s[1] for s in spans)
    begin = datetime(first.year, first.month, first.day, tzinfo=UTC)
    return begin, datetime(last.year, last.month, last.day, 23, 59, 59, tzinfo=UTC)


def _span(parts: dict[str, str | None], today: date) -> tuple[date, date] | None:
    month = _MONTHS.get((parts.get("name") or "").lower()) or int(parts.get("month") or "0")
    year = int(parts.get("year") or today.year)
    try:
        if not parts.get("day"):
            return date(year, month, 1), date(year, month, monthrange(year, month)[1])
        day = date(year, month, int(parts["day"] or "0"))
        if not parts.get("year") and day > today:
            day = date(year - 1, month, day.day)
    except ValueError:
        return None
    return day, day
