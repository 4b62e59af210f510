"""The words of the documentation and of the package, and the links of the documentation."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("collector/**/*.md")])
SOURCES = sorted([*ROOT.glob("otel_itl/**/*.py"), *ROOT.glob("docs/*.py"), *ROOT.glob("examples/*.py")])
AVOIDED = re.compile(r"\b(?:told|tells?|nobody|whoever|so many)\b", re.IGNORECASE)
"""Words that personify data, or leave open who does something: report, record, emit, distinguish say it."""
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
FILE = re.compile(r"`((?:otel_itl|core|recording|sdks|export|report|testing|tests|bench|docs|examples)/[\w./-]*)`")


def text_of(page: Path) -> str:
    """The text of a page, without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def resolves(page: Path, link: str) -> bool:
    """Whether a link of a page leads to a file, and to a heading there; what is elsewhere is not looked at."""
    target, _, anchor = link.partition("#")
    if "://" in target or target.startswith("mailto:"):
        return True
    path = page.parent / target if target else page
    return path.exists() and (not anchor or path.suffix != ".md" or anchor in anchors(path))


def exists(name: str) -> bool:
    """Whether there is a file of that name; NNNN stands for any number."""
    return "NNNN" in name or any((folder / name).exists() for folder in (ROOT, ROOT / "otel_itl", ROOT / "tests"))


def test_a_file_avoids_words_without_a_subject() -> None:
    lines = (
        (f"{path.relative_to(ROOT)}:{number}", line)
        for path in (*PAGES, *SOURCES)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
    )
    assert [f"{place}: {line}" for place, line in lines if AVOIDED.search(line)] == []


def test_the_links_of_a_page_resolve() -> None:
    links = ((page, link) for page in PAGES for link in LINK.findall(text_of(page)))
    assert [f"{page.relative_to(ROOT)}: {link}" for page, link in links if not resolves(page, link)] == []


def test_the_files_that_a_page_names_exist() -> None:
    names = ((page, name) for page in PAGES for name in sorted(set(FILE.findall(text_of(page)))))
    assert [f"{page.relative_to(ROOT)}: {name}" for page, name in names if not exists(name)] == []
