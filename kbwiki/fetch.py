"""Fetch one page or paper over HTTP, from addresses that may be asked.

Owns sockets, redirects, limits, and which addresses are public. A host is looked up once for each
request, and the very address that was checked is connected to, so a name whose answer changes in
between leads nowhere else. No proxy is used. Knows nothing of formats or the store.
"""

import http.client
import ipaddress
import re
import socket
import ssl
import zlib
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Thread
from urllib.parse import SplitResult, quote, unquote_to_bytes, urljoin, urlsplit, urlunsplit

from kbwiki.errors import InputError

AGENT = "kbwiki/0.1 (+https://github.com/kbwiki/kbwiki)"
MAX_REDIRECTS = 10
MAX_URL = 4_000
ARXIV = "https://arxiv.org/pdf/"
_ARXIV_ID = re.compile(r"(?:\d{4}\.\d{4,5}|[a-z-]+(?:\.[A-Z]{2})?/\d{7})(?:v\d+)?", re.IGNORECASE)
_PORTS = {"http": 80, "https": 443}
_PIECE = 65_536
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_HIGH = re.compile(r"(?:%[89a-fA-F][0-9a-fA-F])+")

Ip = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Limits:
    """What a fetch may take: bytes of a body, seconds in all and for one wait."""

    max_bytes: int
    total_s: float = 120.0
    wait_s: float = 15.0


@dataclass(frozen=True, slots=True)
class Page:
    """What came from ``url``, where the last redirect led; ``kind`` is its media type or empty."""

    url: str
    body: bytes
    kind: str
    charset: str


def is_public(address: str) -> bool:
    """Tell whether an IP address is one of the open network: not of a house, machine or link."""
    ip: Ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped:
            return is_public(str(ip.ipv4_mapped))
        if ip in _NAT64:
            return is_public(str(ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)))
        inner = [ip.sixtofour, *(ip.teredo or ())]
        if ip.is_site_local or not all(is_public(str(each)) for each in inner if each):
            return False
    return ip.is_global and not (ip.is_multicast or ip.is_reserved)


def canonical(address: str) -> str:
    """Return the one spelling of an address: ``https://...``, letters as letters, no fragment.

    ``arxiv:ID`` becomes the address of the paper's PDF. Raises InputError for what is no address
    of a page.
    """
    scheme, _, rest = address.partition(":")
    if scheme.lower() == "arxiv":
        if not _ARXIV_ID.fullmatch(rest.strip()):
            raise InputError(
                f"{_shown(address)}: it is no arXiv id.", "Such as arxiv:2501.00663 or cs/9901001."
            )
        return ARXIV + rest.strip()
    return _readable(_split(address))


def _shown(address: str) -> str:
    """Return an address for a message: on one line, not endless, without a password."""
    line = re.sub(r"[\x00-\x1f\x7f-\x9f]", "?", address)
    return re.sub(r"//[^/@]*@", "//...@", line)[:200]


def _split(address: str) -> SplitResult:
    where = _shown(address)
    if len(address) > MAX_URL or re.search(r"[\x00-\x1f\x7f-\x9f]", address.strip()):
        raise InputError(f"{where}: it is no address.", "Look for a stray character in it.")
    try:
        parts = urlsplit(address.strip())
        port = parts.port
        host = (parts.hostname or "").encode("idna").decode("ascii")
    except (ValueError, UnicodeError) as error:
        raise InputError(f"{where}: it is no address.", str(error)) from error
    if parts.scheme not in _PORTS:
        raise InputError(f"{where}: only http and https are fetched.", "Save it as a file.")
    if not re.fullmatch(r"[\w.-]*|[0-9a-f:.]+(?:%\w+)?", host, re.ASCII):
        raise InputError(f"{where}: it is no address.", f"{_shown(host)} is no name of a host.")
    if not host or port == 0:
        raise InputError(f"{where}: it names no host.", "Such as https://example.org/page.")
    if parts.username is not None or parts.password is not None:
        raise InputError(
            f"{where}: a name or password in an address is not sent.", "Save the page as a file."
        )
    netloc = f"[{host}]" if ":" in host else host
    if port not in {None, _PORTS[parts.scheme]}:
        netloc += f":{port}"
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    query = quote(parts.query, safe="/%:@!$&'()*+,;=~-._?")
    return SplitResult(parts.scheme, netloc, path, query, "")


def _readable(parts: SplitResult) -> str:
    """Return an address with its letters as letters; ``_split`` gives the same parts back."""
    host = parts.hostname or ""
    with suppress(UnicodeError):
        netloc = parts.netloc.replace(host, host.encode("ascii").decode("idna"))
        parts = parts._replace(netloc=netloc)

    def letters(found: re.Match[str]) -> str:
        try:
            text = unquote_to_bytes(found[0]).decode("utf-8")
        except UnicodeDecodeError:
            return found[0]
        return text if text.isprintable() else found[0]

    path, query = (_HIGH.sub(letters, part) for part in (parts.path, parts.query))
    return urlunsplit(parts._replace(path=path, query=query))


def fetch(address: str, limits: Limits, may_ask: Callable[[str], bool] = is_public) -> Page:
    """Return what an address gives, redirects followed; ``may_ask`` judges each IP address.

    Raises InputError for whatever is in the way: no network, a refused address, a status that is
    not 200, too many bytes, too long a time. The wait can be interrupted.
    """
    visit = _Visit(address, limits, may_ask)
    answers: SimpleQueue[Page | BaseException] = SimpleQueue()

    def go() -> None:
        try:
            answers.put(visit.go())
        except BaseException as error:  # noqa: BLE001 - raised by whoever waits
            answers.put(error)

    # A name that does not resolve and a byte a second obey no timeout of a socket.
    Thread(target=go, name="fetch", daemon=True).start()
    try:
        answer = answers.get(timeout=limits.total_s)
    except Empty:
        raise visit.error(f"it took over {limits.total_s:g} s", "Try again later.") from None
    finally:
        visit.stop()
    if isinstance(answer, BaseException):
        raise answer
    return answer


@dataclass(slots=True)
class _Visit:
    """One fetch: where it began and what it may."""

    address: str
    limits: Limits
    may_ask: Callable[[str], bool]
    open: list[socket.socket] = field(default_factory=list)

    def error(self, what: str, hint: str) -> InputError:
        return InputError(f"{_shown(self.address)}: {what}.", hint)

    def stop(self) -> None:
        """End whatever still waits on the wire."""
        for sock in self.open:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def go(self) -> Page:
        parts = _split(self.address)
        seen: set[str] = set()
        while True:
            url = urlunsplit(parts)
            if url in seen or len(seen) > MAX_REDIRECTS:
                raise self.error("it redirects in a circle", "It may want cookies: save the page.")
            seen.add(url)
            try:
                answer = self._ask(parts)
            except ssl.SSLCertVerificationError as error:
                why = error.verify_message or "not valid"
                raise self.error(
                    f"its certificate is refused: {why}", "Is it the right address?"
                ) from error
            except TimeoutError as error:
                raise self.error(
                    f"no answer within {self.limits.wait_s:g} s", "Try again later."
                ) from error
            except http.client.HTTPException as error:
                raise self.error(
                    f"the answer is no HTTP or broken off: {type(error).__name__}", "Try again."
                ) from error
            except OSError as error:
                why = (error.strerror or str(error)).lower()
                raise self.error(f"no connection: {why}", "Is there a network?") from error
            if isinstance(answer, Page):
                return answer
            parts = self._redirected(parts, answer)

    def _redirected(self, parts: SplitResult, location: str) -> SplitResult:
        # The wire is Latin-1; a server that sends letters sends them as UTF-8.
        with suppress(UnicodeError):
            location = location.encode("latin-1").decode("utf-8")
        try:
            target = _split(urljoin(urlunsplit(parts), location))
        except (InputError, ValueError) as error:
            why = error.message if isinstance(error, InputError) else str(error)
            why = why.removesuffix(".")
            raise self.error(
                f"it redirects to what is not fetched: {why}", "Save the page as a file."
            ) from error
        if (parts.scheme, target.scheme) == ("https", "http"):
            raise self.error("it redirects from https to http", "Name that address yourself.")
        return target

    def _look_up(self, host: str, port: int) -> list[tuple[socket.AddressFamily, tuple[str, int]]]:
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (socket.gaierror, UnicodeError) as error:
            raise self.error(
                f"the host {host} was not found", "Is there a network, and is the name right?"
            ) from error
        found = [(family, (str(place[0]), port, *place[2:])) for family, _, _, _, place in rows]
        for _, place in found:
            if not self.may_ask(place[0]):
                raise self.error(
                    f"{host} is at {place[0]}, an address of this machine or a private network",
                    "`--allow-private` lets it through.",
                )
        return [(family, place) for family, place in found]

    def _connect(self, host: str, port: int) -> socket.socket:
        fault = OSError("no address")
        for family, place in self._look_up(host, port):
            sock = socket.socket(family, socket.SOCK_STREAM)
            sock.settimeout(self.limits.wait_s)
            self.open.append(sock)
            try:
                sock.connect(place)
            except OSError as error:
                sock.close()
                fault = error
            else:
                return sock
        raise fault

    def _ask(self, parts: SplitResult) -> Page | str:
        """Return what one address gives, or where it redirects to."""
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        sock = self._connect(host, port)
        try:
            if parts.scheme == "https":
                sock = ssl.create_default_context().wrap_socket(sock, server_hostname=host)
                self.open.append(sock)
            connection = http.client.HTTPConnection(host, port)
            if port == _PORTS[parts.scheme]:
                connection.default_port = port
            connection.sock = sock
            target = parts.path + (f"?{parts.query}" if parts.query else "")
            headers = {
                "User-Agent": AGENT,
                "Accept": "text/html,application/pdf,text/markdown,text/plain,*/*;q=0.5",
                "Accept-Language": "en,ru;q=0.9",
                "Accept-Encoding": "identity",
                "Connection": "close",
            }
            connection.request("GET", target, headers=headers)
            with closing(connection.getresponse()) as response:
                return self._answer(urlunsplit(parts), response)
        finally:
            sock.close()

    def _answer(self, url: str, response: http.client.HTTPResponse) -> Page | str:
        location = response.getheader("Location")
        if response.status in {301, 302, 303, 307, 308} and location:
            return location
        if response.status != 200:
            hint = {
                401: "It wants a login: save the page as a file.",
                403: "It wants a login or no robots: save the page as a file.",
                429: "It was asked too often: try again later.",
            }.get(response.status, "Look at the address in a browser.")
            raise self.error(f"the server says {response.status} {response.reason}", hint)
        body = self._unpacked(self._body(response), response.getheader("Content-Encoding", ""))
        kind = response.headers.get_content_type() if "Content-Type" in response.headers else ""
        return Page(url, body, kind, response.headers.get_content_charset() or "")

    def _too_large(self) -> InputError:
        limit = f"{self.limits.max_bytes / 1e6:g} MB"
        return self.error(f"it is over the limit of {limit}", "Set KBWIKI_MAX_FILE_MB.")

    def _body(self, response: http.client.HTTPResponse) -> bytes:
        announced = response.length
        if announced is not None and announced > self.limits.max_bytes:
            raise self._too_large()
        body = bytearray()
        while piece := response.read1(_PIECE):
            body += piece
            if len(body) > self.limits.max_bytes:
                raise self._too_large()
        if announced is not None and len(body) < announced:
            raise self.error(f"it broke off after {len(body):,} bytes", "Try again.")
        return bytes(body)

    def _unpacked(self, body: bytes, encoding: str) -> bytes:
        """Return a body that was packed although nobody asked for it."""
        if encoding.strip().lower() in {"", "identity"}:
            return body
        if encoding.strip().lower() not in {"gzip", "x-gzip", "deflate"}:
            raise self.error(f"it is packed as {encoding[:20]}", "Save the page as a file.")
        out = b""
        while body and (not out or body[:2] == b"\x1f\x8b"):  # gzip may have several parts
            unpacker = zlib.decompressobj(47)
            try:
                out += unpacker.decompress(body, self.limits.max_bytes + 1 - len(out))
            except zlib.error as error:
                raise self.error("its packing is broken", "Try again.") from error
            if len(out) > self.limits.max_bytes:
                raise self._too_large()
            if not unpacker.eof:
                raise self.error("it broke off within its packing", "Try again.")
            body = unpacker.unused_data
        return out
