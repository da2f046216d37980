"""What every file of the repository keeps to, and what the walks through the code point at."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "millstream"
LINES_MAX = 500
REASON = "Longer than 500 lines because"  # what the header of a longer file says
# In pieces, so that this file does not name what it forbids.
REGISTRIES = re.compile(
    "|".join(
        rf"{host}\.{top}"
        for host, top in (
            ("pypi", r"org"),
            ("pythonhosted", r"org"),
            ("npmjs", r"(?:org|com)"),
            (r"yarnpkg", r"com"),
            ("crates", r"io"),
        )
    )
)
MACHINE_PATHS = re.compile(r"(?<![\w.~$}/-])/(?:" + "|".join(("home", "root", "work", "Users")) + r")/\w")
_CODE_LINK = re.compile(r"\[`([^`]+)`\]\(([^()\s]+\.py)\)")


def repository_files() -> list[Path]:
    """What is committed, or would be by `git add --all`."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    files = [ROOT / name for name in listed.split("\0") if name]
    return [path for path in files if path.is_file()]


def text_of(path: Path) -> str:
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return ""


def places(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
        for path in repository_files()
        for text in [text_of(path)]
        for match in pattern.finditer(text)
    ]


def test_no_file_names_the_host_of_a_package_registry() -> None:
    assert places(REGISTRIES) == []


def test_no_file_names_a_path_of_one_machine() -> None:
    assert places(MACHINE_PATHS) == []


def test_a_source_file_above_500_lines_gives_the_reason_in_its_header() -> None:
    without_reason = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        text = path.read_text()
        header = ast.get_docstring(ast.parse(text)) or ""
        if text.count("\n") > LINES_MAX and REASON not in header:
            without_reason.append(str(path.relative_to(ROOT)))
    assert not without_reason, f"find the two things in it, or write '{REASON} …' in its header"


def code_links() -> list[tuple[str, str, Path]]:
    found = []
    for document in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for name, target in _CODE_LINK.findall(document.read_text()):
            found.append((document.name, name, (document.parent / target).resolve()))
    return found


def names_in(path: Path) -> set[str]:
    """Functions, classes and constants of a module, and what its classes define: `Class.method`."""
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        names |= _defined(node)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{inner}" for child in node.body for inner in _defined(child)}
    return names


def _defined(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Assign):
        return {target.id for target in node.targets if isinstance(target, ast.Name)}
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return {node.target.id}
    return set()


def test_every_name_that_the_documentation_links_to_is_defined_in_that_file() -> None:
    links = code_links()
    walks = {document for document, _, _ in links}
    assert {"walk-of-an-append.md", "walk-of-a-read.md"} <= walks
    missing = [
        f"{document}: {name} in {path.relative_to(ROOT)}"
        for document, name, path in links
        if not path.is_file() or (not name.endswith(".py") and name not in names_in(path))
    ]
    assert missing == []
