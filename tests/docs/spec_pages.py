"""The clauses of `docs/spec`, the files that cite them, and the page of proofs, which `make docs-site` builds."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "docs" / "spec"
PROOFS = SPEC / "proofs.md"
READ = (".py", ".md", ".yaml", ".toml", ".json")
FOLDERS = ("core", "adapters", "app", "kit", "contrib", "tests", "bench", "docs", "deploy", "manifests")

HEADING = re.compile(r"^## ((?:RES|REC|OPS|PULL|PH|RUN|SEE|SIM|CONF)-\d+) (.+)$", re.MULTILINE)
ROW = re.compile(r"^\| ((?:S|W)-\d+b?) \| (.+) \|$", re.MULTILINE)
CODE = re.compile(
    r"(?<![A-Za-z0-9-])((?:RES|REC|OPS|PULL|PH|RUN|SEE|SIM|CONF)[-_]\d+|(?:S|W)[-_]\d{2}b?)(?![0-9A-Za-z])"
)
RANGE = re.compile(r"\b(S|W)-(\d+) to \1-(\d+)\b")


@attrs.frozen
class Clause:
    """A clause with a heading, or a measured rule with a row."""

    code: str
    title: str
    page: str

    @property
    def anchor(self) -> str:
        """The part after `#` of a link to the heading, as GitHub makes it; none for a row of a table."""
        slug = re.sub(r"[^\w -]", "", f"{self.code} {self.title}".lower()).replace(" ", "-")
        return "" if self.page == "api-server.md" else f"#{slug}"


@cache
def clauses() -> Mapping[str, Clause]:
    """Every clause and rule by its code, in the order of the pages."""
    pages = ("resources", "reconcile", "operations", "pull-mode", "phases", "runtime", "seeing", "proof", "api-server")
    found: dict[str, Clause] = {}
    for page in (f"{name}.md" for name in pages):
        text = (SPEC / page).read_text(encoding="utf-8")
        for code, title in (*HEADING.findall(text), *ROW.findall(text)):
            assert code not in found, f"{code} is written down twice"
            found[code] = Clause(code, title, page)
    return found


def cited_in(text: str) -> Iterator[str]:
    """Every code in a text; `_` in the name of a test stands for `-`; a range names everything in it."""
    for code in CODE.findall(re.sub(r"(?<=[a-z])_(?=(?:[A-Z]+|S|W)_\d)", " ", text)):
        yield code.replace("_", "-")
    for prefix, first, last in RANGE.findall(text):
        spanned = (f"{prefix}-{number:02}" for number in range(int(first), int(last) + 1))
        yield from (code for code in spanned if code in clauses())


@cache
def citations() -> Mapping[str, frozenset[str]]:
    """Which files cite each code, but for the specification itself."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    files += [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in READ]
    for path in files:
        if path.is_file() and SPEC not in path.parents:
            for code in cited_in(path.read_text(encoding="utf-8")):
                found[code].add(str(path.relative_to(ROOT)))
    return {code: frozenset(paths) for code, paths in found.items()}


def proofs_of(code: str) -> list[str]:
    """Test modules that name the clause; a range in the docstring of a module counts for all that it spans."""
    known = clauses()
    return sorted(
        path for path in citations().get(code, ()) if path.startswith("tests/") and code in known and "/test_" in path
    )


def page() -> str:
    """Return the text of `docs/spec/proofs.md` on the site."""
    lines = [
        "# Proofs",
        "",
        "Generated for the site: which tests name each clause. A test names a clause in its name or in the",
        'docstring of itself or of its module. Run those of one clause with `make test PYTEST_ARGS="FILE…"`.',
        "",
        "| clause | proved by |",
        "|---|---|",
    ]
    for clause in clauses().values():
        links = ", ".join(f"[{Path(path).stem}](../../{path})" for path in proofs_of(clause.code))
        lines.append(f"| [{clause.code}]({clause.page}{clause.anchor}) | {links} |")
    return "\n".join(lines) + "\n"
