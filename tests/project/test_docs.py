"""What the documentation says about the code is what the code says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.project import tables
from tests.project.tables import Table, as_markdown

PAGES = {
    "keys": ("limits.md", tables.KEY_COLUMNS, tables.keys),
    "keys_without_effect": ("limits.md", tables.EFFECT_COLUMNS, tables.keys_without_effect),
    "codes": ("errors.md", tables.CODE_COLUMNS, tables.codes),
}


@pytest.mark.parametrize(("page", "columns", "wanted"), PAGES.values(), ids=PAGES)
def test_a_table_in_docs_says_what_the_code_says(
    page: str, columns: tuple[str, ...], wanted: Callable[[], Table]
) -> None:
    table = wanted()
    assert sorted(tables.rows(page, columns)) == sorted(table), (
        f"docs/{page} is behind the code, which would write:\n{as_markdown(columns, table)}"
    )


def test_every_code_and_every_reason_is_a_sentence() -> None:
    for row in [*tables.keys(), *tables.codes()]:
        text = row[3] if len(row) == 4 else row[2]
        assert len(text) > 10, row
        assert "|" not in text, row


def test_no_two_errors_share_a_code() -> None:
    names = [row[0] for row in tables.codes()]
    assert len(names) == len(set(names))
