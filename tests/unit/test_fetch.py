"""Fetching from a real server: what is followed, what is refused, and why."""

import gzip
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from fakes.web import Web, serve_web

from kbwiki.errors import InputError
from kbwiki.fetch import Limits, canonical, fetch, is_public

LIMITS = Limits(max_bytes=10_000, total_s=60, wait_s=30)


def _here(address: str) -> bool:
    return address == "127.0.0.1"


@pytest.fixture
def web() -> Iterator[Web]:
    with serve_web() as web:
        yield web


def test_a_page_comes_with_its_type_and_charset(web: Web) -> None:
    url = web.page("/память", "Память".encode("cp1251"), "text/html; charset=Windows-1251")
    web.pages["/%D0%BF%D0%B0%D0%BC%D1%8F%D1%82%D1%8C"] = web.pages["/память"]
    page = fetch(url, LIMITS, _here)
    assert (page.kind, page.charset) == ("text/html", "windows-1251")
    assert page.body.decode(page.charset) == "Память"
    assert web.asked == [("/%D0%BF%D0%B0%D0%BC%D1%8F%D1%82%D1%8C", f"127.0.0.1:{web.port}")]


def test_redirects_are_followed_and_letters_in_them_understood(web: Web) -> None:
    web.page("/%D1%81%D1%8E%D0%B4%D0%B0?q=%D1%8F", b"here", "text/plain")
    web.redirect("/two", "/сюда?q=я#part", 308)
    url = web.redirect("/one", "two")
    page = fetch(url, LIMITS, _here)
    assert page.body == b"here"
    assert page.url.endswith("/%D1%81%D1%8E%D0%B4%D0%B0?q=%D1%8F")


@pytest.mark.parametrize(
    ("target", "why"),
    [
        pytest.param("/one", "in a circle", id="a circle"),
        pytest.param("http://127.0.0.2:1/", "127.0.0.2, an address of this machine", id="another"),
        pytest.param("http://2130706434:1/", "127.0.0.2", id="the same as a number"),
        pytest.param("http://[::ffff:7f00:2]:1/", "this machine", id="mapped into IPv6"),
        pytest.param("http://169.254.169.254/meta", "a private network", id="a cloud's metadata"),
        pytest.param("file:///etc/passwd", "only http and https", id="a file"),
        pytest.param("gopher://127.0.0.1/", "only http and https", id="another scheme"),
        pytest.param("http://me:secret@127.0.0.1/", "is not sent", id="a password"),
        pytest.param("http://[::1/", "what is not fetched", id="nonsense"),
    ],
)
def test_each_redirect_is_judged_like_the_first_address(web: Web, target: str, why: str) -> None:
    def only_this(address: str) -> bool:
        return address == "127.0.0.1"

    url = web.redirect("/one", target)
    with pytest.raises(InputError, match=why) as caught:
        fetch(url, LIMITS, only_this)
    assert "secret" not in str(caught.value)
    assert {path for path, _ in web.asked} == {"/one"}


def test_endless_redirects_end(web: Web) -> None:
    for number in range(30):
        web.redirect(f"/{number}", f"/{number + 1}")
    with pytest.raises(InputError, match="circle"):
        fetch(web.url("/0"), LIMITS, _here)
    assert len(web.asked) < 15


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.215.14", True),
        ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", True),
        ("127.0.0.1", False),
        ("127.8.9.1", False),
        ("0.0.0.0", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("100.64.0.1", False),
        ("169.254.169.254", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1", False),
        ("fe80::1%eth0", False),
        ("fec0::1", False),
        ("fd00::1", False),
        ("ff02::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("::ffff:93.184.215.14", True),
        ("::127.0.0.1", False),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b::5db8:d70e", True),
        ("2002:7f00:1::", False),
        ("2001:0:7f00:1::", False),
    ],
)
def test_addresses_of_houses_machines_and_links_are_not_public(address: str, public: bool) -> None:
    assert is_public(address) == public


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "0x7f.1", "[::1]"])
def test_nothing_of_this_machine_is_asked(web: Web, host: str) -> None:
    with pytest.raises(InputError, match="this machine"):
        fetch(web.url("/", host), LIMITS)
    assert web.asked == []


def test_the_address_that_was_checked_is_the_one_connected_to(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that answers otherwise the second time it is asked leads nowhere else."""
    answers = iter(["127.0.0.1", "127.0.0.9"])
    asked: list[str] = []
    real = socket.getaddrinfo

    def look_up(host: str, port: int, **more: Any) -> Any:
        asked.append(host)
        return real(next(answers), port, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    web.page("/", b"<p>here", "text/html")
    assert fetch(web.url("/", "rebind.test"), LIMITS, _here).body == b"<p>here"
    assert asked == ["rebind.test"]
    assert web.asked == [("/", f"rebind.test:{web.port}")]
    with pytest.raises(InputError, match=r"127\.0\.0\.9"):
        fetch(web.url("/", "rebind.test"), LIMITS, _here)


def test_a_host_with_one_private_address_among_its_own_is_refused(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.getaddrinfo

    def look_up(host: str, port: int, **more: Any) -> Any:
        return [*real("127.0.0.1", port, **more), *real("10.0.0.1", port, **more)]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(InputError, match=r"10\.0\.0\.1"):
        fetch(web.url(), LIMITS, _here)


def test_a_cyrillic_host_is_asked_by_its_wire_name(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.getaddrinfo
    asked: list[str] = []

    def look_up(host: str, port: int, **more: Any) -> Any:
        asked.append(host)
        return real("127.0.0.1", port, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    web.page("/", b"<p>here", "text/html")
    fetch(web.url("/", "пример.испытание"), LIMITS, _here)
    assert asked == ["xn--e1afmkfd.xn--80akhbyknj4f"]
    assert web.asked[0][1] == f"xn--e1afmkfd.xn--80akhbyknj4f:{web.port}"


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


@pytest.mark.parametrize(
    ("pieces", "every_s", "why"),
    [
        pytest.param([HEAD + b"Content-Length: 900\r\n\r\nshort"], 0, "broke off", id="cut short"),
        pytest.param([HEAD + b"Content-Length: 99999999\r\n\r\n"], 0, "over the limit", id="huge"),
        pytest.param([HEAD + b"Content-Length: -5\r\n\r\n" + b"x" * 10_001], 0, "over the limit",
                     id="a length below nothing"),
        pytest.param([HEAD + b"\r\n", b"x" * 5_000], 0.001, "over the limit", id="endless"),
        pytest.param([HEAD + b"\r\n", b"x"], 0.2, "took over 1 s", id="a byte at a time"),
        pytest.param([b"HTTP/1.1 200 OK\r\nX: ", b"x"], 0.2, "took over 1 s", id="a slow head"),
        pytest.param([HEAD, b"X: " + b"y" * 70_000 + b"\r\n"], 0, "no HTTP", id="a long head"),
        pytest.param([b"SSH-2.0-OpenSSH\r\n"], 0, "no HTTP", id="no HTTP"),
        pytest.param([b""], 0, "no HTTP or broken off|no connection", id="nothing"),
        pytest.param([HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"], 0, "broken off",
                     id="a chunk cut short"),
        pytest.param([HEAD + b"Content-Encoding: br\r\n\r\nxx"], 0, "packed as br", id="brotli"),
        pytest.param([HEAD + b"Content-Encoding: gzip\r\n\r\nxx"], 0, "packing", id="no gzip"),
        pytest.param([HEAD + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"0" * 99_999)], 0,
                     "over the limit", id="a bomb"),
        pytest.param([HEAD + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"012345")[:-9]], 0,
                     "broke off", id="gzip cut short"),
        pytest.param([b"HTTP/1.1 404 Not Found\r\n\r\n"], 0, "404 Not Found", id="not found"),
        pytest.param([b"HTTP/1.1 302 Found\r\n\r\n"], 0, "302", id="a redirect to nowhere"),
        pytest.param([b"HTTP/1.1 204 No Content\r\n\r\n"], 0, "204", id="no content"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_answer_is_said(
    web: Web, pieces: list[bytes], every_s: float, why: str
) -> None:
    url = web.raw("/", *pieces, every_s=every_s)
    limits = Limits(max_bytes=10_000, total_s=1) if "took over" in why else LIMITS
    with pytest.raises(InputError, match=why) as caught:
        fetch(url, limits, _here)
    assert caught.value.message.startswith(f"{url}: ")
    assert caught.value.hint


def test_a_body_that_was_packed_unasked_is_unpacked(web: Web) -> None:
    url = web.page("/", gzip.compress(b"words"), "text/plain", Content_Encoding="gzip")
    assert fetch(url, LIMITS, _here).body == b"words"
    two = gzip.compress(b"words") + gzip.compress(" и слова".encode())
    url = web.page("/two", two, "text/plain", Content_Encoding="gzip")
    assert fetch(url, LIMITS, _here).body.decode() == "words и слова"


def test_a_closed_port_and_an_unknown_host_are_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with pytest.raises(InputError, match="no connection: connection refused"):
            fetch(f"http://127.0.0.1:{port}/", LIMITS, _here)

    def offline(host: str, port: int, **more: Any) -> Any:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", offline)
    with pytest.raises(InputError, match=r"the host nowhere\.invalid was not found") as caught:
        fetch("http://nowhere.invalid/", LIMITS)
    assert "network" in caught.value.hint


def test_a_server_without_tls_is_no_https(web: Web) -> None:
    with pytest.raises(InputError, match="no connection"):
        fetch(web.url().replace("http:", "https:"), LIMITS, _here)


def test_tls_is_spoken_with_hosts_whose_certificates_are_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, context = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    with serve_web(tls=context) as web:
        web.page("/", b"<p>secure", "text/html")
        url = web.url("/", "localhost").replace("http:", "https:")

        def local(address: str) -> bool:
            return address in {"127.0.0.1", "::1"}

        with pytest.raises(InputError, match="certificate is refused"):
            fetch(url, LIMITS, local)
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert fetch(url, LIMITS, local).body == b"<p>secure"
        assert web.asked == [("/", f"localhost:{web.port}")]
        with pytest.raises(InputError, match="certificate is refused"):
            fetch(url.replace("localhost", "127.0.0.1"), LIMITS, local)
        web.redirect("/down", web.url("/", "localhost"))
        with pytest.raises(InputError, match="from https to http"):
            fetch(f"{url}down", LIMITS, local)


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6")
def test_ipv6_is_spoken() -> None:
    with serve_web("::1") as web:
        web.page("/", b"six", "text/plain")
        page = fetch(web.url("/", "[::1]"), LIMITS, lambda address: address == "::1")
        assert page.body == b"six"
        assert web.asked == [("/", f"[::1]:{web.port}")]


@pytest.mark.parametrize(
    ("address", "spelt"),
    [
        ("HTTPS://Example.ORG:443/a?b=1#part", "https://example.org/a?b=1"),
        ("http://example.org", "http://example.org/"),
        ("http://example.org:8080/x", "http://example.org:8080/x"),
        (
            "https://ru.wikipedia.org/wiki/%D0%9F%D0%B0%D0%BC%D1%8F%D1%82%D1%8C",
            "https://ru.wikipedia.org/wiki/Память",
        ),
        ("https://ru.wikipedia.org/wiki/Память", "https://ru.wikipedia.org/wiki/Память"),
        ("https://xn--e1afmkfd.xn--80akhbyknj4f/%2F%FF", "https://пример.испытание/%2F%FF"),
        ("https://ПРИМЕР.испытание/", "https://пример.испытание/"),
        ("http://example.org/a b", "http://example.org/a%20b"),
        ("arxiv:2501.00663", "https://arxiv.org/pdf/2501.00663"),
        ("arXiv:2501.00663v2", "https://arxiv.org/pdf/2501.00663v2"),
        ("arxiv:cs/9901001", "https://arxiv.org/pdf/cs/9901001"),
    ],
)
def test_an_address_has_one_spelling(address: str, spelt: str) -> None:
    assert canonical(address) == spelt
    assert canonical(spelt) == spelt


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("ftp://example.org/a", "only http and https"),
        ("https://", "no host"),
        ("https:///path", "no host"),
        ("http://a b/", "no address"),
        ("http://example.org:99999/", "no address"),
        ("http://example.org/\r\nHost: evil", "no address"),
        ("http://user:secret@example.org/", "is not sent"),
        ("http://" + "a" * 70 + ".org/", "no address"),
        ("http://example.org/" + "a" * 5_000, "no address"),
        ("arxiv:", "no arXiv id"),
        ("arxiv:../../etc", "no arXiv id"),
        ("arxiv:2501.00663?x=1", "no arXiv id"),
    ],
)
def test_what_is_no_address_is_refused(address: str, why: str) -> None:
    with pytest.raises(InputError, match=why) as caught:
        canonical(address)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
