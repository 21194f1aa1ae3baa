"""Make the PDF files of tests/data/pdf that need a typesetter, and the demo's Russian paper.

Run by hand with fpdf2, pypdf and the DejaVu fonts: python tests/data/make_pdf.py
"""

from pathlib import Path

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
    pdf.set_creation_date(__import__("datetime").datetime(2025, 3, 4))
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


def main() -> None:
    """Write every file."""
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
