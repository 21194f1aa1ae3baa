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


def main() -> None:
    """Write every file."""
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


if __name__ == "__main__":
    main()
