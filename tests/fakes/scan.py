"""Pages of a PDF as pictures, as a scanner leaves them."""

import shutil
import subprocess
from io import BytesIO
from pathlib import Path

import pypdfium2
import pytest

needs_tesseract = pytest.mark.skipif(
    shutil.which("tesseract") is None
    or not {"rus", "eng"}
    <= set(
        subprocess.run(
            ["tesseract", "--list-langs"], capture_output=True, text=True, check=False
        ).stdout.split()
    ),
    reason="tesseract with Russian and English is not installed",
)


def scanned(source: Path, keep: frozenset[int] = frozenset()) -> bytes:
    """Return a copy in which each page, but those kept (from 0), is a grey picture of itself."""
    old, new = pypdfium2.PdfDocument(source), pypdfium2.PdfDocument.new()
    for number in range(len(old)):
        if number in keep:
            new.import_pages(old, [number])
            continue
        page = old[number]
        width, height = page.get_size()
        picture = BytesIO()
        page.render(scale=200 / 72, grayscale=True).to_pil().save(picture, "JPEG", quality=60)
        image = pypdfium2.PdfImage.new(new)
        image.load_jpeg(picture, inline=True)
        image.set_matrix(pypdfium2.PdfMatrix().scale(width, height))
        made = new.new_page(width, height)
        made.insert_obj(image)
        made.gen_content()
    out = BytesIO()
    new.save(out)
    new.close()
    old.close()
    return out.getvalue()
