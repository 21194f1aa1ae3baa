"""Saved pages that are no articles: what stands there instead is named, and articles stay."""

import pytest

from kbwiki.errors import InputError, QuarantineError
from kbwiki.text.readers import read_document


def _page(title: str, body: str) -> bytes:
    html = f"<html><head><meta charset='utf-8'><title>{title}</title></head><body>{body}</body>"
    return f"{html}</html>".encode()


EN_COOKIES = (
    "<div><h2>We value your privacy</h2><p>We and our partners use cookies to store data.</p>"
    "<p>By pressing Accept you give your consent to all cookies.</p><button>Accept</button></div>"
)
EN_PRIVACY = (
    "<p>We value your privacy. We and our partners store information on a device and process "
    "personal data. You may accept or manage your choices.</p>"
)
RU_COOKIES = (
    "<div><h2>Мы используем файлы cookie</h2><p>Продолжая, вы даёте согласие на обработку "
    "персональных данных и файлов cookie.</p><button>Принять</button></div>"
)


@pytest.mark.parametrize(
    ("title", "body", "why"),
    [
        ("404 Not Found", "<h1>404 Not Found</h1><p>nginx</p>", "error page"),
        ("Ошибка 404", "<h1>Страница не найдена</h1><p>Такой страницы нет.</p>", "error page"),
        ("Access denied", "<p>You have no permission to read this.</p>", "error page"),
        ("Just a moment...", "<p>Checking your browser before access.</p>", "robots"),
        ("Проверка", "<p>Подтвердите, что вы не робот, и мы пустим вас.</p>", "robots"),
        ("News", "<p>Please enable JavaScript to read on.</p>", "JavaScript"),
        ("Статья", "<p>Для работы сайта включите JavaScript в браузере.</p>", "JavaScript"),
        ("Journal", "<p>Sign in to continue reading the article.</p>", "login"),
        ("Журнал", "<p>Войдите, чтобы прочесть статью целиком.</p>", "login"),
        ("Hello", "<form><p>Your name</p><input type='password'></form>", "login"),
        ("Site", EN_COOKIES, "cookie wall"),
        ("Сайт", RU_COOKIES, "cookie wall"),
        ("Before you go", EN_PRIVACY, "cookie wall"),
        ("Oops", "<p>Sorry, the page you were after doesn't exist.</p>", "error page"),
        ("Ой!", "<p>Такой страницы нет. Возможно, она была удалена.</p>", "error page"),
        ("Сайт", "<p>Ведутся технические работы, зайдите к нам позже.</p>", "error page"),
        ("Shop", "<p>This domain is for sale. Buy this domain today.</p>", "error page"),
        ("Ой!", "<p>Запросы с вашего устройства похожи на автоматические.</p>", "robots"),
        ("Paper", "<p>This article is only available to subscribers.</p>", "login"),
        ("Статья", "<p>Полный текст доступен только по подписке.</p>", "login"),
        ("Menu", "<nav><a href='/a'>Home</a></nav>", "no main text"),
    ],
)
def test_a_wall_is_named_and_may_be_forced(title: str, body: str, why: str) -> None:
    raw = _page(title, body)
    with pytest.raises(QuarantineError, match=why) as caught:
        read_document("a.html", raw)
    assert "--force" in caught.value.hint
    assert read_document("a.html", raw, force=True).text


@pytest.mark.parametrize(
    ("title", "sentence"),
    [
        ("How cookies work", "A cookie is a small text that a server asks a browser to keep. "),
        ("Ошибка 404 в истории сети", "Код 404 сервер отдаёт, когда страницы у него нет. "),
        ("Login forms", "A login form asks for a name; please sign in to continue, it says. "),
    ],
)
def test_an_article_about_walls_is_an_article(title: str, sentence: str) -> None:
    body = f"<article><h1>{title}</h1></article>" + "".join(
        f"<p>{number}. {sentence}{sentence} {'слово ' * number}</p>" for number in range(30)
    )
    assert read_document("a.html", _page(title, body)).title == title


@pytest.mark.parametrize(
    "text",
    [
        "A captcha is a test that tells people from machines. It was invented in 2000.",
        "A cookie is a small piece of data that a server sends to a browser. It keeps a session.",
        "Согласие между моделями называют ансамблем; он уменьшает дисперсию ответа.",
        "Файл cookie — это небольшой текст, который сервер оставляет в браузере.",
    ],
)
def test_a_short_note_about_walls_is_a_note(text: str) -> None:
    assert read_document("a.html", _page("Note", f"<p>{text}</p>")).text == text


def test_a_page_without_a_word_cannot_be_forced() -> None:
    with pytest.raises(InputError, match="no text came out"):
        read_document("a.html", b"<html><body><img src='a.png'></body></html>", force=True)
