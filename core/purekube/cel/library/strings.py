"""CEL's extension library of string functions, such as `indexOf`, `split` and `format`."""

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from purekube.cel.library.standard import double_text, text_of
from purekube.cel.limits import Budget, EvaluationError, of_type
from purekube.cel.moments import duration_text, timestamp_text
from purekube.cel.signatures import built, function, text_cost
from purekube.cel.values import Duration, Timestamp, TypeValue, is_number

_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)
_LOWER: Final = {upper: upper + 32 for upper in range(65, 91)}
_UPPER: Final = {lower: lower - 32 for lower in range(97, 123)}
_MOST_DIGITS: Final = 1_000


def _index(value: Any, length: int) -> int:
    if not 0 <= of_type(int, value) <= length:
        raise EvaluationError(f"index out of range: {value}")
    return int(value)


def _char_at(text: Any, at: Any) -> str:
    at = _index(at, len(text_of(text)))
    return str(text[at : at + 1])


def _index_of(text: Any, part: Any, start: Any = 0) -> int:
    return text_of(text).find(text_of(part), _index(start, len(text)))


def _last_index_of(text: Any, part: Any, start: Any = None) -> int:
    text, part = text_of(text), text_of(part)
    if start is None:
        return int(text.rfind(part))
    return int(text.rfind(part, 0, _index(start, len(text)) + len(part)))


def _substring(text: Any, start: Any, end: Any = None) -> str:
    begin = _index(start, len(text_of(text)))
    stop = len(text) if end is None else _index(end, len(text))
    if begin > stop:
        raise EvaluationError(f"index out of range: {begin}")
    return str(text[begin:stop])


def _replace(budget: Budget, text: Any, old: Any, new: Any, most: Any = -1) -> str:
    text, old, new = text_of(text), text_of(old), text_of(new)
    count = text.count(old) if of_type(int, most) < 0 else min(most, text.count(old))
    budget.build_text(len(text) + count * (len(new) - len(old)))
    return str(text.replace(old, new, most if most >= 0 else -1))


def _split(budget: Budget, text: Any, separator: Any, most: Any = -1) -> list[str]:
    text, separator = text_of(text), text_of(separator)
    if of_type(int, most) == 0:
        return []
    budget.build_items(1 + (text.count(separator) if most < 0 else min(most, text.count(separator))))
    budget.build_text(len(text))
    if separator:
        return list(text.split(separator, most - 1 if most > 0 else -1))
    characters = list(text)
    if 0 < most < len(characters):
        return [*characters[: most - 1], "".join(characters[most - 1 :])]
    return characters


def _join(budget: Budget, items: Any, separator: Any = "") -> str:
    length = sum(len(text_of(item)) for item in of_type(list, items))
    budget.spend(len(items))
    budget.build_text(length + len(text_of(separator)) * max(0, len(items) - 1))
    return str(separator.join(items))


def _quote(budget: Budget, text: Any) -> str:
    escapes: dict[str, str | int | None] = {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }
    return str(built(budget, f'"{text_of(text).translate(str.maketrans(escapes))}"'))


def _made(run: Callable[..., Any]) -> Callable[..., Any]:
    return lambda budget, *arguments: built(budget, run(*arguments))


# --- format ----------------------------------------------------------------------------------------------------------


def _format(budget: Budget, text: Any, arguments: Any) -> str:
    out: list[str] = []
    taken, at, text = 0, 0, text_of(text)
    arguments = of_type(list, arguments)
    while at < len(text):
        sign = text.find("%", at)
        if sign < 0:
            out.append(text[at:])
            break
        out.append(text[at:sign])
        if text.startswith("%%", sign):
            out.append("%")
            at = sign + 2
            continue
        precision, verb, at = _clause(text, sign + 1)
        if taken >= len(arguments):
            raise EvaluationError(f"index {taken} out of range: the format has more clauses than arguments")
        out.append(built(budget, _formatted(budget, verb, precision, arguments[taken])))
        taken += 1
    return str(built(budget, "".join(out)))


def _clause(text: str, at: int) -> tuple[int | None, str, int]:
    """Parse one format clause, such as `%.2f`, whose `%` ends before the position `at`.

    Return its precision (None if not given), its verb (the letter that selects the form), and the position of its end.
    """
    precision = None
    if text.startswith(".", at):
        end = at + 1
        while end < len(text) and text[end].isascii() and text[end].isdigit():
            end += 1
        precision = int(text[at + 1 : end][:6] or 0)
        if precision > _MOST_DIGITS:
            raise EvaluationError(f"a precision of more than {_MOST_DIGITS} digits")
        at = end
    if at >= len(text):
        raise EvaluationError("unexpected end of format string")
    return precision, text[at], at + 1


def _formatted(budget: Budget, verb: str, precision: int | None, value: Any) -> str:
    match verb:
        case "s":
            return _shown(budget, value)
        case "d":
            return _decimal(value)
        case "f":
            return _fixed(value, 6 if precision is None else precision)
        case "e":
            return _scientific(value, 6 if precision is None else precision)
        case "b":
            return "10"[not value] if isinstance(value, bool) else _based(value, "b")
        case "o":
            return _based(value, "o")
        case "x" | "X":
            return _hexadecimal(value, verb)
        case _:
            raise EvaluationError(f"unrecognized formatting clause {verb!r}")


def _shown(budget: Budget, value: Any) -> str:
    budget.spend(1)
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case bytes():
            return value.decode("utf-8", "replace")
        case int():
            return str(int(value))
        case float():
            return _infinite(value) or double_text(value)
        case Timestamp():
            return timestamp_text(value)
        case Duration():
            return duration_text(value)
        case TypeValue():
            return value.name
        case list():
            return f"[{', '.join(built(budget, _shown(budget, item)) for item in value)}]"
        case Mapping():
            pairs = ((_shown(budget, key), item) for key, item in value.items())
            shown = sorted((key, built(budget, _shown(budget, item))) for key, item in pairs)
            return f"{{{', '.join(f'{key}: {item}' for key, item in shown)}}}"
        case _:
            raise EvaluationError(
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, times"
            )


def _infinite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return ("Infinity" if value > 0 else "-Infinity") if math.isinf(value) else ""


def _decimal(value: Any) -> str:
    if isinstance(value, float):
        return _infinite(value) or _integer_text(value)
    if not is_number(value):
        raise EvaluationError("decimal clause can only be used on numbers")
    return str(int(value))


def _integer_text(value: float) -> str:
    if not value.is_integer():
        raise EvaluationError("decimal clause can only be used on whole numbers")
    return str(int(value))


def _number(value: Any, clause: str) -> float | Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise EvaluationError(f"{clause} clause can only be used on numbers")
    return value if isinstance(value, float) else Decimal(int(value))


def _fixed(value: Any, precision: int) -> str:
    number = _number(value, "fixed-point")
    if isinstance(number, float) and (named := _infinite(number)):
        return named
    return f"{number:.{precision}f}"


def _scientific(value: Any, precision: int) -> str:
    number = _number(value, "scientific")
    if isinstance(number, float) and (named := _infinite(number)):
        return named
    if isinstance(number, float) or number == 0:
        return f"{float(number):.{precision}e}"
    return _exponent(number, precision)


def _exponent(number: Decimal, precision: int) -> str:
    mantissa, _, exponent = f"{number:.{precision}e}".partition("e")
    return f"{mantissa}e{exponent[0]}{exponent[1:].rjust(2, '0')}"


def _based(value: Any, base: str) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        raise EvaluationError("only integers can be formatted that way")
    return format(int(value), base)


def _hexadecimal(value: Any, verb: str) -> str:
    if isinstance(value, (str, bytes)):
        raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        return raw.hex().upper() if verb == "X" else raw.hex()
    return _based(value, verb)


FUNCTIONS: Final = (
    function("string.charAt(int) -> string", _char_at),
    function("string.indexOf(string) -> int", _index_of, cost=text_cost),
    function("string.indexOf(string, int) -> int", _index_of, cost=text_cost),
    function("string.lastIndexOf(string) -> int", _last_index_of, cost=text_cost),
    function("string.lastIndexOf(string, int) -> int", _last_index_of, cost=text_cost),
    function(
        "string.lowerAscii() -> string",
        _made(lambda text: text_of(text).translate(_LOWER)),
        cost=text_cost,
        with_budget=True,
    ),
    function(
        "string.upperAscii() -> string",
        _made(lambda text: text_of(text).translate(_UPPER)),
        cost=text_cost,
        with_budget=True,
    ),
    function("string.replace(string, string) -> string", _replace, cost=text_cost, with_budget=True),
    function("string.replace(string, string, int) -> string", _replace, cost=text_cost, with_budget=True),
    function("string.split(string) -> list(string)", _split, cost=text_cost, with_budget=True),
    function("string.split(string, int) -> list(string)", _split, cost=text_cost, with_budget=True),
    function("string.substring(int) -> string", _made(_substring), cost=text_cost, with_budget=True),
    function("string.substring(int, int) -> string", _made(_substring), cost=text_cost, with_budget=True),
    function(
        "string.trim() -> string", _made(lambda text: text_of(text).strip(_SPACE)), cost=text_cost, with_budget=True
    ),
    function("string.reverse() -> string", _made(lambda text: text_of(text)[::-1]), cost=text_cost, with_budget=True),
    function("list(string).join() -> string", _join, with_budget=True),
    function("list(string).join(string) -> string", _join, with_budget=True),
    function("strings.quote(string) -> string", _quote, cost=text_cost, with_budget=True),
    function("string.format(list(dyn)) -> string", _format, cost=text_cost, with_budget=True),
)
