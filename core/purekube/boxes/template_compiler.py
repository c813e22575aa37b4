"""The compilation of a box's templates and whole-value expressions, each checked against its place (PH-6)."""

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import attrs

from purekube.apimachinery.manifest import get_path
from purekube.apimachinery.problems import index
from purekube.boxes import fits
from purekube.boxes.expressions import BoxExpression
from purekube.boxes.problems import Findings
from purekube.boxes.scoping import ExpressionCompiler, Variables
from purekube.boxes.templates import Template, TextPart, compile_template, whole_expression
from purekube.cel import BOOL, STRING, CelSyntaxError, CelType, Program
from purekube.schema.node import Schema

Judge: TypeAlias = Callable[[Program, str, int, Variables, Schema | None, bool], None]
"""A function that judges an expression: program, path, position in its text, variables, schema, part of a text."""


@attrs.frozen(eq=False)
class TemplateCompiler:
    """The compiler of templates; problems go to the findings."""

    findings: Findings
    expressions: ExpressionCompiler

    def whole(
        self, text: str, path: str, variables: Variables, cel_type: CelType | None = None
    ) -> BoxExpression | None:
        """Compile a field that is one expression; None if it is none, which is reported."""
        try:
            piece = whole_expression(text)
        except CelSyntaxError as error:
            self.findings.syntax(path, error, text, 0)
            return None
        if piece is None:
            self.findings.problem(path, f"must be one expression: ${{{text.strip() or '…'}}}")
            return None
        return self.expressions.piece(piece, path, variables, wanted=cel_type)

    def conditions(self, texts: Sequence[str], path: str, variables: Variables) -> tuple[BoxExpression, ...]:
        """Compile expressions that give true or false."""
        made = [self.whole(text, index(path, at), variables, BOOL) for at, text in enumerate(texts)]
        return tuple(expression for expression in made if expression is not None)

    def template(
        self,
        raw: Any,
        path: str,
        variables: Variables,
        *,
        schema: Schema | None = None,
        wanted: CelType | None = None,
        secret_below: Sequence[str] = (),
        judge: Judge | None = None,
    ) -> Template:
        """Compile a template whose expressions fit the schema; `secret_below` are paths that secret data may fill.

        `judge` is called for each expression, with the schema of its place if that is known.
        """
        leaves = dict(fits.leaf_schemas(raw, schema, path)) if schema is not None else {}

        def compile_piece(where: str, piece: TextPart, in_text: bool) -> BoxExpression | None:
            secret = any(where.startswith(prefix) for prefix in secret_below)
            asked = STRING if in_text else wanted
            made = self.expressions.piece(piece, where, variables, wanted=asked, secret=secret)
            leaf = leaves.get(where)
            if made is not None and judge is not None:
                judge(made.program, where, piece.at, variables, leaf, in_text)
            if made is not None and leaf is not None:
                self._check_leaf(made, leaf, where, piece, in_text=in_text)
            return made

        template, problems = compile_template(raw, path, compile_piece)
        for problem in problems:
            self.findings.syntax(problem.path, problem.error, _text_at(raw, problem.path, path), 0)
        if schema is not None:
            for misfit in fits.misfits(raw, schema, path):
                self.findings.problem(misfit.path, misfit.message)
        return template

    def _check_leaf(self, made: BoxExpression, leaf: Schema, where: str, piece: TextPart, *, in_text: bool) -> None:
        misfit = fits.mismatch(STRING if in_text else made.program.type, leaf)
        if misfit is not None:
            told = f"{misfit.path}: {misfit.message}" if misfit.path else misfit.message
            self.findings.problem(where, f"{told} ({piece.text.strip()})", piece.at)


def _text_at(raw: Any, path: str, root: str) -> str:
    """Return the text of a template at a path, as far as it can be found again."""
    below = path.removeprefix(root)
    for step in re.findall(r"\[(\d+)\]|\['([^']*)'\]|\.([^.\[]+)", below):
        number, quoted, plain = step
        key: Any = int(number) if number else quoted or plain
        raw = get_path(raw, key)
    return raw if isinstance(raw, str) else ""
