"""Pictures of the guide: small, and written only where a run is asked to."""

from __future__ import annotations

import io
import os
from pathlib import Path

from playwright.sync_api import Page

REPO = Path(__file__).resolve().parents[2]
PICTURES = REPO / "docs/guide/pictures"
WIDTH, HEIGHT_MIN, HEIGHT_MAX = 1280, 600, 1400
_WRITE = "TIDEGATE_WRITE_PICTURES"

#: The height of the page's content.
_CONTENT_HEIGHT = "document.querySelector('main').lastElementChild.getBoundingClientRect().bottom"


def take(page: Page, name: str) -> None:
    """Take a picture of the page; under `make pictures` it is the new NAME.png of the guide."""
    page.mouse.move(0, 0)
    page.evaluate("document.fonts.ready")
    page.evaluate("window.scrollTo(0, 0)")
    height = int(page.evaluate(_CONTENT_HEIGHT)) + 24
    page.set_viewport_size({"width": WIDTH, "height": max(HEIGHT_MIN, min(height, HEIGHT_MAX))})
    shot = page.screenshot(animations="disabled", caret="hide")
    if os.environ.get(_WRITE):
        (PICTURES / f"{name}.png").write_bytes(small(shot))


def small(png: bytes) -> bytes:
    """The same picture with a palette of 256 colours. Small spots keep their colour."""
    from PIL import Image

    whole = Image.open(io.BytesIO(png)).convert("RGB")
    few = whole.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    written = io.BytesIO()
    few.save(written, "PNG", optimize=True)
    return written.getvalue()
