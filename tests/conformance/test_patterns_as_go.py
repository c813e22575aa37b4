"""Patterns of CRDs mean what they mean to Go, and cost bounded work (PH-6, RUN-11)."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubelab.downstream.crds import downstream_crds
from kubelab.flux.crds import flux_crds
from purekube.regex import PatternError
from purekube.regex.match import Pattern
from purekube.schema.compile import compile_schema
from purekube.schema.node import SchemaError
from tests.support.patience import PATIENCE
from tests.support.projects_crds import crds_at_hand
from vworkspace_core.api.crd import crd_manifests

GO = """package main

import (
	"bufio"
	"encoding/json"
	"os"
	"regexp"
)

func main() {
	in, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var asked [2]string
		if err := json.Unmarshal(in.Bytes(), &asked); err != nil {
			panic(err)
		}
		pattern, err := regexp.Compile(asked[0])
		if err != nil {
			out.Encode("refused")
			continue
		}
		out.Encode(pattern.MatchString(asked[1]))
	}
}
"""


def patterns_in(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for item in schema:
            yield from patterns_in(item)
    if isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        for item in schema.values():
            yield from patterns_in(item)


def known_patterns() -> list[str]:
    """Return those of the CRDs that the laboratory serves, and of the real ones where they are at hand."""
    ours = (*crd_manifests(), *flux_crds(), *downstream_crds())
    return sorted({*patterns_in(list(ours)), *patterns_in(list(crds_at_hand().values()))})


PIECES = st.sampled_from(
    ["a", "b", "1", "9", "-", ".", "/", ":", "h", "m", "s", "_", "A", "é", "\n", " ", "@", "sha256:"]
)


def texts_for(pattern: str) -> st.SearchStrategy[str]:
    """Texts of the characters that a pattern speaks of, and of others."""
    own = st.sampled_from(sorted(set(pattern)))
    return st.lists(own | PIECES, max_size=12).map("".join)


CASES = st.deferred(lambda: st.sampled_from(known_patterns())).flatmap(
    lambda pattern: st.tuples(st.just(pattern), texts_for(pattern))
)


class Counted(tuple[Any, ...]):
    """The instructions of a pattern, which count how often one is read."""

    reads = 0

    def __getitem__(self, at: Any) -> Any:
        Counted.reads += 1
        return super().__getitem__(at)


@pytest.mark.slow
@given(CASES)
@example(("^(a+)+$", "a" * 200 + "!"))
@example((r"^(([0-9]+(\.[0-9]+)?(ms|s|m|h))+)$", "1h" * 300))
def test_the_work_of_a_pattern_is_bounded_by_its_size_and_the_text_RUN_11(case: tuple[str, str]) -> None:
    """Each instruction is read at most twice a character: once on the way to it, once to follow it."""
    text, Counted.reads = case[1], 0
    pattern = Pattern(case[0])
    pattern._code = Counted(pattern._code)

    pattern.matches_in(text)

    assert Counted.reads <= 2 * pattern.size * (len(text) + 1)


def test_a_pattern_of_unknown_syntax_is_named_with_its_path() -> None:
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"name": {"type": "string", "pattern": "^(?!no)$"}}},
            "status": {"type": "object", "additionalProperties": {"type": "string", "pattern": r"^\p{Lu}"}},
        },
    }
    with pytest.raises(SchemaError) as refused:
        compile_schema(schema)

    assert {problem.path for problem in refused.value.problems} == {
        "properties[spec].properties[name].pattern",
        "properties[status].additionalProperties.pattern",
    }


@pytest.fixture(scope="module")
def go(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, str], bool | str]]:
    """Ask Go's own engine."""
    if shutil.which("go") is None:
        pytest.skip("Go is not installed")
    folder = tmp_path_factory.mktemp("go")
    (folder / "main.go").write_text(GO, encoding="utf-8")
    subprocess.run(["go", "build", "-o", "match", "main.go"], cwd=folder, check=True, timeout=10 * PATIENCE)
    with subprocess.Popen([folder / "match"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def ask(pattern: str, text: str) -> bool | str:
            stdin.write(json.dumps([pattern, text]) + "\n")
            stdin.flush()
            answer: bool | str = json.loads(stdout.readline())
            return answer

        yield ask
        stdin.close()


def verdict(pattern: str, text: str) -> bool | str:
    try:
        return Pattern(pattern).matches_in(text)
    except PatternError:
        return "refused"


@pytest.mark.slow
@given(case=CASES)
def test_a_known_pattern_has_the_verdict_of_Go(go: Callable[[str, str], bool | str], case: tuple[str, str]) -> None:
    assert go(*case) == verdict(*case)


@pytest.mark.slow
@given(
    pattern=st.lists(st.sampled_from("ab1.*+?|()[]^$-{}2,\\dwsbz:"), max_size=10).map("".join),
    text=st.text("ab12 .-_\n", max_size=8),
)
@example("[[:alpha:]_]+$", "1a")
@example("a{,2}", "a{,2}")
@example("x**", "")
@example(r"\Q.\E", ".")
def test_any_pattern_that_is_taken_has_the_verdict_of_Go(
    go: Callable[[str, str], bool | str], pattern: str, text: str
) -> None:
    """What Go refuses is refused; a few things that Go takes are refused with their place."""
    own, theirs = verdict(pattern, text), go(pattern, text)

    assert own == theirs or own == "refused"
