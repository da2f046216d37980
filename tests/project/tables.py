"""The tables in docs/ that mirror the code, and how the code would write them."""

from __future__ import annotations

from pathlib import Path

from millstream.protocol.errors import Code
from millstream.settings import KEYS, WITHOUT_EFFECT, Key

DOCS = Path(__file__).resolve().parents[2] / "docs"

UNITS = {
    "address": "HOST:PORT",
    "count": "number",
    "duration": "duration",
    "log_format": "`human`, `json`",
    "size": "size",
    "text": "text",
    "url": "URL",
}

Table = list[tuple[str, ...]]


def rows(page: str, columns: tuple[str, ...]) -> Table:
    """The rows of every table of a page that has these columns."""
    found: Table = []
    inside = False
    for line in (DOCS / page).read_text().splitlines():
        cells = tuple(cell.strip() for cell in line.strip().strip("|").split("|"))
        if not line.startswith("|"):
            inside = False
        elif cells == columns:
            inside = True
        elif inside and not set(line) <= set("|-: "):
            found.append(cells)
    return found


def key_row(name: str, key: Key) -> tuple[str, ...]:
    default = f"`{key.default}`" if key.default != "" else "none"
    return f"`{name}`", default, UNITS[key.parse.__name__], key.reason


KEY_COLUMNS = ("key", "default", "unit", "reason")
EFFECT_COLUMNS = ("key", "effect")
CODE_COLUMNS = ("code", "status", "meaning", "retry is safe", "may have been applied")


def keys() -> Table:
    return [key_row(name, key) for name, key in KEYS.items()]


def keys_without_effect() -> Table:
    return [(f"`{key}`", why) for key, why in WITHOUT_EFFECT.items()]


def codes() -> Table:
    yes = {True: "yes", False: "no"}
    return [
        (
            f"`{spec.code}`",
            str(spec.status),
            spec.meaning,
            yes[spec.retry_safe],
            yes[spec.maybe_applied],
        )
        for spec in (code.value for code in Code)
    ]


def as_markdown(columns: tuple[str, ...], table: Table) -> str:
    """What to paste when a test says that a page is behind the code."""
    lines = [columns, tuple("---" for _ in columns), *table]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
