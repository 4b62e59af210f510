"""The words of the documentation and of the package, and the links of the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("collector/**/*.md")])
SOURCES = sorted([*ROOT.glob("otel_itl/**/*.py"), *ROOT.glob("docs/*.py"), *ROOT.glob("examples/*.py")])
AVOIDED = re.compile(r"\b(?:told|tells?|nobody|whoever|so many)\b", re.IGNORECASE)
"""Words that personify data, or leave open who does something: report, record, emit, distinguish say it."""
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
FILE = re.compile(r"`((?:otel_itl|core|recording|sdks|export|report|testing|tests|bench|docs|examples)/[\w./-]*)`")


def ids(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def text_of(page: Path) -> str:
    """The text of a page, without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", [*PAGES, *SOURCES], ids=ids([*PAGES, *SOURCES]))
def test_a_file_avoids_words_without_a_subject(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [f"{number}: {line}" for number, line in enumerate(lines, start=1) if AVOIDED.search(line)] == []


@pytest.mark.parametrize("page", PAGES, ids=ids(PAGES))
def test_the_links_of_a_page_resolve(page: Path) -> None:
    broken = []
    for link in LINK.findall(text_of(page)):
        target, _, anchor = link.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        path = page.parent / target if target else page
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=ids(PAGES))
def test_the_files_that_a_page_names_exist(page: Path) -> None:
    named = set(FILE.findall(text_of(page)))
    folders = (ROOT, ROOT / "otel_itl", ROOT / "tests")
    missing = [name for name in named if "NNNN" not in name and not any((folder / name).exists() for folder in folders)]
    assert missing == []
