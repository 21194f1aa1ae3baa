"""Make the PDF files of tests/data/pdf that need a typesetter, and the demo's Russian paper.

Run by hand with fpdf2, pypdf, pyphen and the DejaVu fonts: python tests/data/make_pdf.py
"""

import re
from datetime import datetime
from pathlib import Path

import pyphen
from fpdf import FPDF
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, NameObject

HERE = Path(__file__).parent
FONTS = Path("/usr/share/fonts/truetype/dejavu")
TEXT = {
    "en": (
        "A memory module learns while the model reads. It keeps what surprised it and lets go of "
        "what it has not needed for long. The update of its weights is one step of gradient "
        "descent on the loss of recall, so that a longer text costs no more for each token. "
    ),
    "ru": (
        "Модуль памяти учится, пока модель читает. Он хранит то, что его удивило, и отпускает то, "
        "что давно не понадобилось. Обновление его весов — это один шаг градиентного спуска по "
        "ошибке припоминания, поэтому длинный текст стоит не больше за каждый токен. "
    ),
}


def new(columns: int = 1) -> FPDF:
    """Return an empty document with fonts that hold both scripts."""
    pdf = FPDF()
    pdf.set_creation_date(datetime(2025, 3, 4))
    pdf.add_font("serif", fname=FONTS / "DejaVuSerif.ttf")
    pdf.add_font("serif", style="B", fname=FONTS / "DejaVuSerif-Bold.ttf")
    return pdf


def two_columns(lang: str, words: dict[str, list[str]], by_rows: bool, title: str, author: str):
    """Return a paper in two columns; ``by_rows`` draws line by line over both."""
    pdf = new()
    pdf.set_title(title)
    pdf.set_author(author)
    pdf.add_page()
    pdf.set_font("serif", "B", 16)
    pdf.multi_cell(0, 9, title, align="C", new_x="LMARGIN", new_y="NEXT")
    pdf.set_font("serif", "", 9)
    pdf.multi_cell(0, 6, author, align="C", new_x="LMARGIN", new_y="NEXT")
    lines: list[tuple[str, bool]] = []
    for heading, paragraphs in words.items():
        lines += [("", False), (heading, True)]
        for paragraph in paragraphs:
            pdf.set_font("serif", "", 9)
            cut = pdf.multi_cell(88, 5, paragraph, dry_run=True, output="LINES", align="L")
            lines += [(line, False) for line in cut]
    top = pdf.get_y() + 4
    half = min((len(lines) + 1) // 2, 48)
    columns = [lines[:half], lines[half:]]
    places = [(c, r) for c in (0, 1) for r in range(len(columns[c]))]
    if by_rows:
        places.sort(key=lambda place: (place[1], place[0]))
    for column, row in places:
        line, is_heading = columns[column][row]
        pdf.set_font("serif", "B" if is_heading else "", 11 if is_heading else 9)
        pdf.set_xy(10 + 98 * column, top + 5 * row)
        pdf.cell(88, 5, line)
    return pdf


def no_unicode(source: Path, target: Path) -> None:
    """Write a copy whose fonts say nothing of the letters they draw."""
    writer = PdfWriter(clone_from=source)
    for page in writer.pages:
        for font in page["/Resources"]["/Font"].values():
            font.get_object().pop("/ToUnicode", None)
            for inner in font.get_object().get("/DescendantFonts", []):
                file = inner.get_object()["/FontDescriptor"].get_object()["/FontFile2"].get_object()
                # The table of characters too, as a printer driver leaves it out.
                file.set_data(file.get_data().replace(b"cmap", b"xmap", 1))
    writer.write(target)


class Paper(FPDF):
    """A paper in two columns with running heads and page numbers."""

    top, bottom, left, gap = 22, 275, 16, 8
    width = (210 - 2 * 16 - 8) / 2

    def __init__(self, title: str, author: str, made: datetime) -> None:
        super().__init__()
        self.set_creation_date(made)
        self.set_title(title)
        self.set_author(author)
        for style, file in (("", "Serif"), ("B", "Serif-Bold"), ("I", "Serif-Italic")):
            self.add_font("serif", style=style, fname=FONTS / f"DejaVu{file}.ttf")
        self.title_, self.column, self.start = title, 0, self.top
        self.set_auto_page_break(False)
        self.words = pyphen.Pyphen(lang="ru_RU")
        self.add_page()
        self.set_font("serif", "B", 17)
        self.multi_cell(0, 9, title, align="C", new_x="LMARGIN", new_y="NEXT")
        self.set_font("serif", "", 10)
        self.multi_cell(0, 7, author, align="C", new_x="LMARGIN", new_y="NEXT")
        self.start = self.get_y() + 5
        self.set_y(self.start)

    def header(self) -> None:
        """Set the running head of each page but the first."""
        if self.page_no() > 1:
            self.set_font("serif", "I", 8)
            self.set_xy(self.left, 10)
            self.cell(0, 5, f"{self.title_} в нейронной памяти", align="C")

    def footer(self) -> None:
        """Set the number of a page."""
        self.set_font("serif", "", 8)
        self.set_xy(self.left, 283)
        self.cell(0, 5, str(self.page_no()), align="C")

    def line(self, text: str, height: float, indent: float = 0, after: str = "") -> None:
        """Set one line, in the next column or page where this one is full."""
        style, size = self.font_style, self.font_size_pt
        if self.get_y() + height > self.bottom:
            self.column += 1
            if self.column == 2:
                self.column, self.start = 0, self.top
                self.add_page()
            self.set_font("serif", style, size)
            self.set_y(self.start)
        y = self.get_y()
        self.set_xy(self.left + self.column * (self.width + self.gap) + indent, y)
        if after:
            self.cell(self.width - indent, height, text, align=after)
        else:
            self.cell(self.width - indent, height, text)
        self.set_y(y + height)

    def paragraph(self, text: str, indent: float = 4) -> None:
        """Set a paragraph, its words broken at the end of a line where that helps."""
        self.set_font("serif", "", 9)
        soft = re.sub(r"[^\W\d_]{6,}", lambda m: self.words.inserted(m[0], "\u00ad"), text)
        lines: list[str] = []
        rest = soft
        while rest:
            room = self.width - (0 if lines else indent)
            first = self.multi_cell(room, 5, rest, dry_run=True, output="LINES", align="L")[0]
            lines.append(first)
            n = len(first.rstrip("-").replace("\u00ad", "")) if first.endswith("-") else len(first)
            rest = _after(rest, n).lstrip()
        for number, line in enumerate(lines):
            self.line(line, 5, 0 if number else indent)

    def table(self, rows: list[list[str]]) -> None:
        """Set a table with a rule under its head."""
        widths = [37, 19, 15.5, 13.5]
        y = self.get_y()
        x = self.left + self.column * (self.width + self.gap)
        for number, row in enumerate(rows):
            self.set_font("serif", "" if number else "B", 7)
            at = x
            for cell, width in zip(row, widths, strict=True):
                self.set_xy(at, y)
                self.cell(width, 5, cell, border="" if number else "B")
                at += width
            y += 5
        self.set_y(y + 2)


def _after(text: str, n: int) -> str:
    """Return what follows ``n`` signs of a text, soft hyphens not counted."""
    for at, sign in enumerate(text):
        if n == 0:
            return text[at:].lstrip("\u00ad")
        n -= sign != "\u00ad"
    return ""


def demo_paper() -> Paper:
    """Return the Russian paper of the demo corpus, typeset from a text with marks."""
    paper = Paper("Дельта-правило", "Ирина Ветрова, Марк Соболев", datetime(2026, 2, 24))
    parts = (HERE / "pdf" / "дельта-правило.txt").read_text("utf-8").strip().split("\n\n")
    for part in parts:
        mark, _, text = part.partition(" ")
        if mark == "#":
            paper.set_y(paper.get_y() + 3)
            paper.set_font("serif", "B", 11)
            paper.line(text, 7)
        elif mark == "=":
            paper.set_font("serif", "I", 8)
            paper.line(text, 9, after="C")
        elif mark == "|":
            rows = [line.strip("| ").split(" | ") for line in part.split("\n")]
            paper.table(rows)
        elif mark == "^":
            paper.set_font("serif", "", 8)
            paper.line(text, 6)
            paper.set_y(paper.get_y() + 3)
        else:
            for item in part.split("\n"):
                paper.paragraph(item.removeprefix("- "), 0 if item.startswith("- ") else 4)
                if item.startswith("- "):
                    paper.set_y(paper.get_y() + 2)
    return paper


LAYOUT = {
    # Marks of footnotes, a long table and a sentence over two pages are what readers stumble on.
    "en": {
        "title": "Memory that learns while it reads",
        "authors": "Anna Lee¹, Boris Ivanov² and Clara van Dyke¹",
        "where": "¹ University of Somewhere  ² Institute of Memory",
        "head": "Lee et al. Memory that learns",
        "again": "The same words open the text of every page here.",
        "numbered": ["1 Introduction", "2 Method", "2.1 The update", "3 Results"],
        "formula": "where the gate decides how much is kept",
        "inline": ["The state ", " keeps what ", " has written, and ", " is its gate."],
        "caption": "Table 1. Accuracy of the models, in percent.",
        "table": [["Model", "MQAR", "BABILong", "LAMBADA"],
                  ["Mamba", "81.2", "40.1", "55.0"],
                  ["Titans", "97.5", "", "58.3"],
                  ["Titans with a long", "98.0", "72.4", "59.9"],
                  ["memory", "", "", ""]],
        "figure": "Figure 2: The loss falls with the length of the text.",
        "note": "A footnote says where the data are kept.",
        "doi": "https://doi.org/10.1234/mem.2024.17",
        "open": "A sentence that begins at the foot of one page and has not come to its end "
                "when the",
        "close": "page is turned is one sentence still.",
    },
    "ru": {
        "title": "Память, которая учится во время чтения",
        "authors": "Анна Ли¹, Борис Иванов² и Клара Фёдорова¹",
        "where": "¹ Университет памяти  ² Институт забывания",
        "head": "Ли и др. Память, которая учится",
        "again": "Одни и те же слова открывают текст каждой страницы.",
        "numbered": ["1 Введение", "2 Метод", "2.1 Обновление", "3 Результаты"],
        "formula": "где вентиль решает, сколько сохраняется",
        "inline": ["Состояние ", " хранит то, что записал ", ", а ", " — это его вентиль."],
        "caption": "Таблица 1. Точность моделей в процентах.",
        "table": [["Модель", "MQAR", "BABILong", "LAMBADA"],
                  ["Мамба", "81,2", "40,1", "55,0"],
                  ["Титаны", "97,5", "", "58,3"],
                  ["Титаны с долгой", "98,0", "72,4", "59,9"],
                  ["памятью", "", "", ""]],
        "figure": "Рис. 2. Потери падают с длиной текста.",
        "note": "В сноске сказано, где хранятся данные.",
        "doi": "https://doi.org/10.1234/mem.2024.17",
        "open": "Предложение, которое начинается внизу страницы и не успевает закончиться, "
                "пока её не",
        "close": "перевернули, остаётся одним предложением.",
    },
}  # fmt: skip


class Layout(FPDF):
    """A paper in one column with all that stands around the text of a real one."""

    def __init__(self, lang: str) -> None:
        super().__init__()
        self.words, self.prose = LAYOUT[lang], TEXT[lang].strip()
        self.set_creation_date(datetime(2025, 3, 4))
        for style, file in (("", "Serif"), ("B", "Serif-Bold"), ("I", "Serif-Italic")):
            self.add_font("serif", style=style, fname=FONTS / f"DejaVu{file}.ttf")
        self.set_margins(25, 30, 25)
        self.set_auto_page_break(True, 30)

    def header(self) -> None:
        """Set the running head, with the number of the page in it."""
        if self.page_no() > 1:
            self.set_font("serif", "I", 8)
            self.set_xy(25, 14)
            self.cell(0, 5, f"{self.words['head']}    {self.page_no()}")
            self.set_xy(25, 30)

    def footer(self) -> None:
        """Set the number of a page."""
        self.set_font("serif", "", 8)
        self.set_xy(25, 282)
        self.cell(0, 5, f"— {self.page_no()} —", align="C")

    def text_(self, text: str, indent: int = 0) -> None:
        """Set a paragraph in the usual size."""
        self.set_font("serif", "", 10)
        self.set_x(25 + indent)
        self.multi_cell(0, 5, text, align="L", new_x="LMARGIN", new_y="NEXT")

    def numbered(self, text: str) -> None:
        """Set a heading in the size and weight of the text."""
        self.ln(5)
        self.set_font("serif", "", 10)
        self.cell(0, 5, text, new_x="LMARGIN", new_y="NEXT")
        self.ln(3)

    def formula(self) -> None:
        """Set a formula with indices and powers and a number, and then one within a sentence."""
        self.ln(2)
        self.set_x(70)
        self.raised("S", "t", "")
        self.raised(" = α", "t", "")
        self.raised("S", "t−1", "")
        self.raised(" + (v", "t", "")
        self.raised(" − S", "t−1", "")
        self.raised("k", "t", "")
        self.raised(")k", "t", "⊤")
        self.set_x(160)
        self.cell(20, 5, "(1)", new_x="LMARGIN", new_y="NEXT")
        self.ln(2)

    def raised(self, text: str, low: str, high: str) -> None:
        """Set letters with an index below or above them."""
        self.set_font("serif", "I", 10)
        self.cell(self.get_string_width(text) + 0.1, 5, text)
        y = self.get_y()
        self.set_font("serif", "I", 6)
        for mark, shift in ((low, 1.4), (high, -1.4)):
            if mark:
                self.set_xy(self.get_x(), y + shift)
                self.cell(self.get_string_width(mark) + 0.1, 5, mark)
        self.set_xy(self.get_x(), y)
        self.set_font("serif", "", 10)

    def inline(self) -> None:
        """Set a sentence with formulas in it."""
        signs = [("M", "t", ""), ("k", "t−1", ""), ("α", "t", ""), ("", "", "")]
        self.set_x(31)
        self.set_font("serif", "", 10)
        for words, (letter, low, high) in zip(self.words["inline"], signs, strict=True):
            self.cell(self.get_string_width(words), 5, words)
            if letter:
                self.raised(letter, low, high)
        self.ln(5)

    def table_(self) -> None:
        """Set the table."""
        self.ln(4)
        for number, row in enumerate(self.words["table"]):
            self.set_font("serif", "B" if number == 0 else "", 9)
            for cell, width in zip(row, (55, 30, 35, 30), strict=True):
                self.cell(width, 5, cell)
            self.ln(5)
        self.ln(2)


def layout(lang: str) -> Layout:
    """Return a paper with running heads, a stamp, formulas, a table, captions and a footnote."""
    pdf = Layout(lang)
    words = pdf.words
    pdf.add_page()
    with pdf.rotation(90, 12, 200):
        pdf.set_xy(12, 200)
        pdf.set_font("serif", "", 14)
        pdf.cell(100, 6, "arXiv:2501.00663v1  [cs.LG]  31 Dec 2024")
    pdf.set_xy(25, 30)
    pdf.set_font("serif", "B", 18)
    pdf.multi_cell(90, 9, words["title"], align="L", new_x="LMARGIN", new_y="NEXT")
    for text, size in ((words["authors"], 11), (words["where"], 9), (words["doi"], 9)):
        pdf.set_font("serif", "", size)
        pdf.cell(0, 7, text, new_x="LMARGIN", new_y="NEXT")
    pdf.numbered(words["numbered"][0])
    pdf.text_(f"1. {pdf.prose}")
    pdf.text_(f"2. {pdf.prose}", indent=6)
    pdf.numbered(words["numbered"][1])
    pdf.text_(f"3. {pdf.prose}")
    pdf.numbered(words["numbered"][2])
    pdf.text_(f"4. {pdf.prose}")
    pdf.formula()
    pdf.text_(f"{words['formula']}.")
    pdf.inline()
    while pdf.get_y() < 220:
        pdf.text_(pdf.prose, indent=6)
    pdf.set_y(246)
    pdf.text_(words["open"])
    pdf.ln(4)
    pdf.set_font("serif", "", 7)
    pdf.cell(0, 4, words["note"])
    pdf.add_page()
    pdf.text_(words["close"])
    pdf.numbered(words["numbered"][3])
    pdf.table_()
    pdf.set_font("serif", "", 9)
    pdf.cell(0, 5, words["caption"], new_x="LMARGIN", new_y="NEXT")
    pdf.ln(5)
    pdf.text_(f"5. {pdf.prose}")
    pdf.rect(40, 150, 60, 30)
    pdf.set_y(184)
    pdf.text_(words["figure"])
    pdf.ln(4)
    pdf.text_(f"6. {pdf.prose}")
    for number in range(7, 11):
        pdf.add_page()
        pdf.text_(f"{words['again']} {number}. {pdf.prose}")
        pdf.text_(f"{pdf.prose} {words['again']}")
    return pdf


def main() -> None:
    """Write every file."""
    for lang in LAYOUT:
        layout(lang).output(HERE / "pdf" / f"layout_{lang}.pdf")
    demo_paper().output(HERE.parents[1] / "corpus" / "ru" / "дельта-правило.pdf")
    out = HERE / "pdf"
    for lang in ("en", "ru"):
        body = {
            "1 Память" if lang == "ru" else "1 Memory": [f"({n}) {TEXT[lang]}" for n in (1, 2, 3)],
            "2 Забывание" if lang == "ru" else "2 Forgetting": [
                f"({n}) {TEXT[lang]}" for n in (4, 5, 6)
            ],
        }
        title = "Память во время вывода" if lang == "ru" else "Memory at test time"
        for by_rows in (False, True):
            name = f"columns_{lang}{'_by_rows' if by_rows else ''}.pdf"
            two_columns(lang, body, by_rows, title, "Анна Ли").output(out / name)
    no_unicode(out / "columns_ru.pdf", out / "no_unicode_ru.pdf")

    pdf = new()
    for number in range(1, 6):
        pdf.add_page()
        pdf.set_font("serif", "", 11)
        if number in {3, 4}:
            pdf.rect(30, 30, 100, 100, style="F")
        else:
            words = TEXT["ru" if number % 2 else "en"]
            pdf.multi_cell(0, 6, f"{number}. {words}")
    pdf.output(out / "scans_within.pdf")

    writer = PdfWriter(clone_from=out / "scans_within.pdf")
    broken = DecodedStreamObject()
    broken.set_data(b"BT /F1 12 Tf (never ended")
    writer.pages[1][NameObject("/Contents")] = writer._add_object(broken)
    writer.pages[1][NameObject("/Resources")] = NameObject("/Nothing")
    writer.write(out / "broken_page.pdf")

    pdf = new()
    pdf.add_page()
    pdf.set_font("serif", "", 11)
    for line in (
        "The eﬃcient ﬁlter of the oﬃce ﬂows, and the ﬁrst infor-",
        "mation is kept. Сохраняется ин-",
        "формация о памяти в весах модели.",
    ):
        pdf.cell(0, 6, line, new_x="LMARGIN", new_y="NEXT")
    pdf.output(out / "ligatures.pdf")

    pdf = new()
    pdf.add_page()
    pdf.set_font("serif", "", 9)
    with pdf.text_columns(ncols=2, gutter=8, text_align="J") as columns:  # no space between lines
        columns.write(TEXT["ru"] * 6 + TEXT["en"] * 6)
    pdf.output(out / "close_lines.pdf")


if __name__ == "__main__":
    main()
