"""The clauses of `docs/spec`, the files that cite them, and the page of proofs, which `make docs-site` builds."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

import attrs

from purekube_run.examination.operator_process import OperatorCommand
from vworkspace_app.examination.run import UNSEEN, ExaminationProfile, ExaminationRequest

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "docs" / "spec"
PROOFS = SPEC / "proofs.md"
READ = (".py", ".md", ".yaml", ".toml", ".json")
PACKAGES = ("purekube_run", "vworkspace_app")
FOLDERS = ("core", "adapters", "app", "kit", "contrib", "tests", "bench", "docs", "deploy", "manifests")

HEADING = re.compile(r"^## ((?:RES|REC|OPS|PULL|PH|RUN|SEE|SIM|CONF)-\d+) (.+)$", re.MULTILINE)
ROW = re.compile(r"^\| ((?:S|W)-\d+b?) \| (.+) \|$", re.MULTILINE)
CODE = re.compile(
    r"(?=[CORPSW])(?<![A-Za-z0-9-])((?:RES|REC|OPS|PULL|PH|RUN|SEE|SIM|CONF)[-_]\d+|(?:S|W)[-_]\d{2}b?)(?![0-9A-Za-z])"
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
    for code in CODE.findall(re.sub(r"_(?<=[a-z]_)(?=[A-Z]+_\d)", " ", text)):
        yield code.replace("_", "-")
    has_range = " to S-" in text or " to W-" in text  # the pattern is slow, and few files have one
    for prefix, first, last in RANGE.findall(text) if has_range else ():
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


IMPORT = re.compile(r"^(?:from|import) (tests[\w.]*)(?: import ([\w, ]+))?", re.MULTILINE)


@cache
def laws() -> Mapping[str, Sequence[str]]:
    """Return the laws of `simulate` by clause: wherever its modules write a clause and, after it, a sentence."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(path for package in PACKAGES for path in (ROOT / "app" / package / "simulation").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            parts = node.args if isinstance(node, ast.Call) else node.elts if isinstance(node, ast.Tuple) else []
            for code, law in pairwise(map(_text, parts)):
                if code in clauses() and law and law not in found[code]:
                    found[code].append(law)
    return found


def _text(node: ast.expr) -> str:
    """Return the text of a literal; empty for other expressions."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


@cache
def checks() -> Mapping[str, Sequence[str]]:
    """Return the checks of `conformance operator` by clause; for a clause without one, why it has none."""
    found = {code: [f"none: {reason}"] for code, reason in UNSEEN.items()}
    for check in ExaminationRequest(OperatorCommand("-"), ExaminationProfile.FULL).checks:
        found.setdefault(check.clause, []).append(check.sentence)
    return found


@cache
def _imported(module: Path) -> frozenset[Path]:
    """Return the modules of `tests` that a module imports, itself included, transitively."""
    seen, due = {module}, [module]
    while due:
        for name, parts in IMPORT.findall(due.pop().read_text(encoding="utf-8")):
            places = [name, *(f"{name}.{part.strip()}" for part in parts.split(","))]
            fresh = {file for place in places if (file := ROOT / f"{place.replace('.', '/')}.py").is_file()} - seen
            seen |= fresh
            due += fresh
    return frozenset(seen)


def servers_of(paths: Sequence[str]) -> Sequence[str]:
    """Return on which servers test modules show a clause, from the least to the most real."""
    found = set()
    for path in paths:
        reached = _imported(ROOT / path)
        found.add("pure" if path.split("/")[1] in ("property", "unit") else "embedded")
        if any("real_assets" in module.read_text(encoding="utf-8") for module in reached):
            found.add("kube-apiserver")
        if path.startswith("tests/cluster/"):
            found.add("real controllers")
    return [server for server in ("pure", "embedded", "kube-apiserver", "real controllers") if server in found]


def page() -> str:
    """Return the text of `docs/spec/proofs.md` on the site (CONF-3)."""
    lines = [
        "# Proofs",
        "",
        "Generated for the site. Tests name a clause in their name or in the docstring of themselves or of their",
        'module; run those of one clause with `make test PYTEST_ARGS="FILE…"`. Servers: pure tests need none; the',
        "others use the embedded API server, a kube-apiserver where one is given, or real controllers.",
        "",
        "| clause | proved by | servers |",
        "|---|---|---|",
    ]
    for clause in clauses().values():
        paths = proofs_of(clause.code)
        links = ", ".join(f"[{Path(path).stem}](../../{path})" for path in paths)
        lines.append(f"| [{clause.code}]({clause.page}{clause.anchor}) | {links} | {', '.join(servers_of(paths))} |")
    lines += ["", "## Laws and checks", ""]
    lines += [
        "Laws are checked by `simulate` at each step, checks are tried by `conformance operator` on any operator.",
        "",
    ]
    for clause in clauses().values():
        entries = [f"* law: {law}" for law in laws().get(clause.code, ())]
        entries += [f"* check: {check}" for check in checks().get(clause.code, ())]
        if entries:
            lines += [f"### [{clause.code}]({clause.page}{clause.anchor}) {clause.title}", "", *entries, ""]
    return "\n".join(lines).rstrip() + "\n"
