"""Documents name what there is: files, each other, environment variables."""

import doctest
import re
import runpy
from pathlib import Path

import pytest

import ftorch

PACKAGE = Path(ftorch.__file__).parent
ROOT = PACKAGE.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(ROOT)) for p in PAGES])
def test_links_and_files(page):
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        # The site has a copy of the notebooks.
        folder = ROOT if target.startswith("notebooks/") else page.parent
        assert (folder / target).exists(), f"a link to {target}"
    if page.name == "CHANGELOG.md":  # says what was, too
        return
    for name in re.findall(
        r"`((?:ftorch/|eager/|jit/|native/|functional/|export/|onnx/|library/|fx/|tests/)[\w./*]+)`", text
    ):
        places = (ROOT, PACKAGE, PACKAGE / "eager", PACKAGE / "jit")
        assert any(list(p.glob(name.rstrip("/"))) for p in places), f"no file {name}"


def test_every_module_says_what_it_is_for():
    """And every room of the engine, of captured programs and of the C++ is in the page on architecture."""
    found = runpy.run_path(str(ROOT / "tools" / "modules.py"))["modules"]()
    lines = {f"{folder}/{name}": line for folder, files in found.items() for name, line in files.items()}
    assert len(lines) > 300
    assert [name for name, line in lines.items() if not line] == []
    text = (ROOT / "docs" / "architecture.md").read_text()
    rooms = {folder.removeprefix(f"{above}/").partition("/")[0] for folder in found
             for above in ("eager/native/src", "eager", "jit") if folder.startswith(f"{above}/")}
    assert sorted(room for room in rooms if f"`{room}/" not in text) == []


def test_decisions_are_numbered_and_listed():
    folder = ROOT / "docs" / "decisions"
    pages = sorted(p.name for p in folder.glob("[0-9]*.md"))
    assert [int(name[:4]) for name in pages] == list(range(1, len(pages) + 1))
    index = (folder / "README.md").read_text()
    for number, name in enumerate(pages, 1):
        title = (folder / name).read_text().split("\n")[0]
        assert title.startswith(f"# {number}. ")
        assert f"[{title.partition('. ')[2]}]({name})" in index


def test_environment_variables_are_listed():
    read = re.compile(
        r"""(?:environ(?:\.get\(|\[)|getenv\(|_environment\()\s*f?["']([A-Z_]+)["']|["']([A-Z_]+)["'] (?:not )?in os\.environ"""
    )
    def names(*files):
        return {name for path in files for found in read.findall(path.read_text()) for name in found if name}

    used = names(*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.cpp"), *PACKAGE.rglob("*.inc"))
    used |= {name for name in names(*(ROOT / "tests").rglob("*.py")) if name.startswith("FTORCH_")}
    listed = set(re.findall(r"`([A-Z_]+)`", (ROOT / "docs" / "environment.md").read_text()))
    own = {name for name in used if name.startswith(("FTORCH_", "TORCH"))}
    assert own <= listed, own - listed
    assert {name for name in listed if name.startswith("FTORCH_")} <= used


EXAMPLES = [page for page in PAGES if ">>> " in page.read_text()]


@pytest.mark.parametrize("page", EXAMPLES, ids=[p.stem for p in EXAMPLES])
def test_examples_run(page):
    """The examples of a page, from top to bottom."""
    text = re.sub(r"^```.*$", "", page.read_text(), flags=re.MULTILINE)
    example = doctest.DocTestParser().get_doctest(text, {"__name__": "__main__"}, page.stem, str(page), 0)
    output: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(example, out=output.append)
    assert runner.failures == 0, "".join(output)
