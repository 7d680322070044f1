"""The code blocks of a page of the documents, for tests that run them as printed."""

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"


def blocks(page: str, language: str = "python") -> list[str]:
    """Return the page's code blocks of that language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def block(page: str, containing: str, language: str = "python") -> str:
    """Return the one code block with that text in it."""
    found = [text for text in blocks(page, language) if containing in text]
    assert len(found) == 1, f"{len(found)} blocks of {page} contain {containing!r}"
    return found[0]
