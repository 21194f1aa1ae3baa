"""Which encoding a file is in: by all of it, and refused where it is no text."""

import random

import pytest

from kbwiki.errors import InputError, QuarantineError
from kbwiki.text.encodings import decode
from kbwiki.text.readers import read_document

RUSSIAN = "Ассоциативная память хранит пары ключей и значений, а забывание ослабляет записи. "
ENGLISH = "The quick brown fox reads a long paper about memory. " * 4_000
TEXTS = [
    pytest.param(RUSSIAN, id="a sentence"),
    pytest.param(ENGLISH + RUSSIAN, id="at the end of a long English text"),
    pytest.param(ENGLISH + RUSSIAN + ENGLISH, id="in the middle of one"),
    pytest.param("Память", id="a word"),
    pytest.param("ПАМЯТЬ И ЗАБЫВАНИЕ", id="capitals"),
    pytest.param("Уидроу, Хофф, Шмидхубер", id="names"),
]
ENCODINGS = [
    "utf-8", "utf-8-sig", "cp1251", "koi8-r", "cp866", "mac_cyrillic", "iso8859_5",
    "utf-16", "utf-16-le", "utf-16-be",
]  # fmt: skip


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("text", TEXTS)
def test_russian_is_told_by_the_whole_file(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)).text == text


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Das Gedächtnis behält, was überrascht; größere Änderungen nicht.", "cp1252"),
        ("La mémoire conserve des clés après l'entraînement.", "latin-1"),
        ("It costs £5 — “really”.", "cp1252"),
        ("Она сказала: «память» — это № 5.", "cp1251"),
        ("Пам'ять зберігає минуле, її вчать під час читання.", "cp1251"),
    ],
)
def test_other_languages_and_signs_are_read(text: str, encoding: str) -> None:
    assert decode((ENGLISH + text).encode(encoding)).text == ENGLISH + text


def test_a_declared_charset_wins_where_it_decodes() -> None:
    raw = "Память".encode("koi8-r")
    assert decode(raw, "koi8-r").text == "Память"
    assert decode("Память".encode(), "ascii").text == "Память"
    assert decode("Память".encode(), "no-such-charset").text == "Память"


@pytest.mark.parametrize("declared", ["koi8-r", "latin-1", "windows-1252", "cp866"])
def test_a_declared_charset_that_makes_no_words_is_not_believed(declared: str) -> None:
    for encoding in ("utf-8", "cp1251"):
        assert decode(RUSSIAN.encode(encoding), declared).text == RUSSIAN
    assert decode(RUSSIAN.encode(), "utf-16").text == RUSSIAN


GREEK = "Η προσοχή είναι μια μνήμη που κρατά το παρελθόν και ξεχνά όσα δεν χρειάζεται. "
JAPANESE = "長いテキストでも記憶は同じ大きさの状態を保つので、費用は増えない。"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (GREEK, "cp1253"),
        (JAPANESE, "shift-jis"),
        (JAPANESE, "iso2022-jp"),
        ("תשומת לב לינארית היא תשומת לב ללא פונקציה מעריכית.", "cp1255"),
        ("Пам'ять зберігає минуле, її вчать під час читання, і вона є сталою.", "koi8-u"),
    ],
)
def test_letters_of_other_scripts_are_no_russian(text: str, encoding: str) -> None:
    decoded = decode(text.encode(encoding))
    assert (decoded.text, decoded.doubt) == (text, "")


def test_words_that_nobody_knows_are_doubted_and_may_be_forced() -> None:
    numbers = random.Random(5)
    letters = bytes(range(0xE0, 0x100))
    raw = b" ".join(bytes(numbers.choices(letters, k=7)) for _ in range(60))
    with pytest.raises(QuarantineError, match="known to no dictionary") as caught:
        read_document("a.txt", raw)
    assert caught.value.hint == "Save it as UTF-8, or take it with `kbwiki ingest --force`."
    assert read_document("a.txt", raw, force=True).text


def test_each_line_is_read_in_its_own_encoding() -> None:
    for first, second in (("utf-8", "cp1251"), ("cp1251", "koi8-r"), ("koi8-r", "utf-8")):
        raw = RUSSIAN.encode(first) + b"\n" + RUSSIAN.encode(second) + b"\n" + b"plain"
        assert decode(raw).text == f"{RUSSIAN}\n{RUSSIAN}\nplain"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_half_a_letter_at_the_end_does_not_spoil_utf_16(encoding: str) -> None:
    assert decode(RUSSIAN.encode(encoding) + b"\n").text == RUSSIAN


def test_control_bytes_are_no_text_even_in_ascii() -> None:
    with pytest.raises(InputError, match="not recognised"):
        decode(b"\x01\x02\x03 abc" * 9)


def test_a_broken_byte_does_not_spoil_a_text_of_utf_8() -> None:
    raw = (RUSSIAN * 20).encode()
    at = raw.index(b" ")
    text = decode(raw[:at] + b"\xff" + raw[at:]).text
    assert text.count("\ufffd") == 1
    assert text.replace("\ufffd", "") == RUSSIAN * 20


def test_what_is_no_text_is_refused() -> None:
    numbers = random.Random(2)
    for raw in (numbers.randbytes(5_000), numbers.randbytes(60), b"\x89PNG\r\n\x1a\n\x00\x00\xff"):
        with pytest.raises(InputError, match="not recognised"):
            read_document("a.txt", raw)


def test_bytes_that_no_text_holds_are_cleaned_away() -> None:
    raw = "\ufeffПа\x00мять\x07 хранит\r\nи\u0306х\rпрошлое\u00ad.".encode()
    assert read_document("a.txt", raw).text == "Память хранит й̆х прошлое.".replace("й̆х", "йх")


SPOILT = "Модуль памяти хранит то, что его удивило, и отпускает прочее. "


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("utf-8", "cp1251"),
        ("utf-8", "cp1252"),
        ("utf-8", "latin-1"),
        ("cp1251", "latin-1"),
        ("cp1251", "koi8-r"),
        ("cp866", "cp1251"),
    ],
)
@pytest.mark.parametrize("name", ["a.md", "a.html"])
def test_letters_that_were_read_wrong_once_and_saved_so_are_quarantined(
    name: str, right: str, wrong: str
) -> None:
    spoilt = (SPOILT * 3).encode(right).decode(wrong, "replace")
    page = f"<html><body><p>{spoilt}</p></body></html>" if name == "a.html" else spoilt
    with pytest.raises(QuarantineError, match="its letters are those of"):
        read_document(name, page.encode())
    assert read_document(name, page.encode(), force=True).text


@pytest.mark.parametrize(
    "text",
    [
        SPOILT,
        "РАССРОЧКА ПРОЦЕССОРА. СРОКИ РАССМОТРЕНИЯ СПОРОВ РОССИИ И СССР.",
        "Été, élève, à côté, où ça? Ça a été né là-bas, évidemment, même déjà.",
        "Η μνήμη κρατά ό,τι την εξέπληξε και ξεχνά τα υπόλοιπα.",
        "Память — «всё» №5 ©2024 ®. Я помню… It’s “fine”. Что?? Где???",
    ],
)
def test_letters_that_are_right_are_let_be(text: str) -> None:
    assert decode((text * 3).encode()).doubt == ""


def test_letters_that_are_gone_are_no_text() -> None:
    with pytest.raises(QuarantineError, match="question marks"):
        read_document("a.txt", SPOILT.encode("ascii", "replace"))
