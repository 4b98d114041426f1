"""The grammar of distributions written as text; `notation.py` turns the result into objects of torch.

    mixture  := part ("+" part)*                       0.3*Normal(0, 1) + 0.7*Normal(4, 1)
    argument := [name "="] value                       "name: value" as torch prints it, too
    value    := number | "[" value, … "]" | mixture
    number   := 1, -2.5e-3, inf, nan, pi, e, and + - * / ** ( ) sqrt log exp of numbers

The text is read by a parser of its own and never evaluated as Python. Length, depth and the number of numbers are
limited, so that no text needs more than a moment or a megabyte.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, NoReturn, Union

from kullback._core.errors import InputValueError, explain_problem

MAX_LENGTH = 20_000
MAX_DEPTH = 24
MAX_NUMBERS = 5_000
MAX_LIST = 1_000

_CONSTANTS = {"pi": math.pi, "π": math.pi, "e": math.e, "inf": math.inf, "∞": math.inf, "nan": math.nan}
_FUNCTIONS: dict[str, Callable[[float], float]] = {"sqrt": math.sqrt, "log": math.log, "exp": math.exp}
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[^\W\d][\w.]*|∞)|(?P<symbol>\*\*|[-+*/^()\[\],=:]))"
)
_ALIKE = str.maketrans({"−": "-", "×": "*", "·": "*", "“": '"', "”": '"'})
_OPENING = {")": "(", "]": "["}


@dataclass(frozen=True)
class Call:
    """A name with arguments: a distribution or a transform."""

    name: str
    arguments: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]
    text: str


@dataclass(frozen=True)
class Mixture:
    """A weighted sum of calls."""

    parts: tuple[tuple[float, Call], ...]
    weighted: bool


Value = Union[float, list["Value"], Call, Mixture]  # noqa: UP007 - names itself, which | cannot before 3.12


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


def parse_expression(text: str) -> Value:
    """The value that a text describes: a number, a list, a call or a mixture.

    Example:
        >>> parse_expression("1/2")
        0.5
        >>> parse_expression("Normal(0, scale=pi)").keywords
        (('scale', 3.141592653589793),)

    Raises:
        InputValueError: If the text is not in the grammar, with the place where it stops making sense.
    """
    if len(text) > MAX_LENGTH:
        raise InputValueError(
            explain_problem(
                "This text is too long for a distribution.",
                got=f"{len(text)} characters",
                expected=f"at most {MAX_LENGTH}",
                instead="arrays in files: kullback explain p.npy q.npy --as probs",
            )
        )
    parser = _Parser(text)
    value = parser.sum(0)
    parser.expect_end()
    return value


def refuse(text: str, why: str, instead: str = "") -> NoReturn:
    """Raise the error for a text that describes no distribution."""
    raise InputValueError(
        explain_problem(
            f"This does not describe a distribution: {why}.",
            got=repr(text if len(text) <= 120 else text[:120] + "…"),
            instead=instead or '"Normal(0, 1)", "Dirichlet([1, 2, 3])", "0.3*Normal(0, 1) + 0.7*Normal(4, 1)"',
        )
    )


class _Parser:
    """Recursive descent over the tokens; every method reads one rule of the grammar and returns its value."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(_tokens(text))
        self.at = 0
        self.numbers = 0

    def sum(self, depth: int) -> Value:
        """Terms with + and - between them."""
        left = self.product(depth)
        while self.peek("+", "-"):
            sign = self.take()
            right = self.product(depth)
            left = self.add(left, right, sign)
        return left

    def product(self, depth: int) -> Value:
        """Factors with * and / between them."""
        left = self.factor(depth)
        while self.peek("*", "/"):
            sign = self.take()
            left = self.multiply(left, self.factor(depth), sign)
        return left

    def factor(self, depth: int) -> Value:
        """A value with signs before it and perhaps a power behind it."""
        if depth > MAX_DEPTH:
            refuse(self.text, f"it is nested deeper than {MAX_DEPTH} levels")
        if self.peek("+", "-"):
            sign = self.take()
            value = self.number(self.factor(depth + 1), "after a sign")
            return -value if sign.text == "-" else value
        value_ = self.atom(depth)
        if self.peek("**", "^"):
            self.take()
            exponent = self.number(self.factor(depth + 1), "as an exponent")
            return self.compute(operator.pow, self.number(value_, "before **"), exponent)
        return value_

    def atom(self, depth: int) -> Value:
        """A number, a name, a call, a list or something in parentheses."""
        token = self.take()
        if token.kind == "number":
            self.count()
            value = float(token.text)
            if math.isinf(value):
                refuse(self.text, f"the number at character {token.start + 1} is larger than any float64")
            return value
        if token.kind == "name":
            return self.call(token, depth) if self.peek("(") else self.constant(token)
        if token.text == "(":
            value_ = self.sum(depth + 1)
            self.close(token, ")")
            return value_
        if token.text == "[":
            return self.items(token, depth)
        return self.unexpected(token)

    def items(self, opening: _Token, depth: int) -> list[Value]:
        """A list, its bracket already read."""
        found: list[Value] = []
        while not self.peek("]"):
            found.append(self.sum(depth + 1))
            if len(found) > MAX_LIST:
                refuse(self.text, f"a list has more than {MAX_LIST} entries", "kullback explain p.npy q.npy --as probs")
            if not self.separated("]"):
                break
        self.close(opening, "]")
        return found

    def call(self, name: _Token, depth: int) -> Value:
        """What stands in the parentheses after a name."""
        opening = self.take()
        arguments: list[Value] = []
        keywords: dict[str, Value] = {}
        while not self.peek(")"):
            key = self.keyword()
            if key is None and keywords:
                refuse(self.text, f"an argument of {name.text} without a name follows one with a name")
            value = self.sum(depth + 1)
            if key is None:
                arguments.append(value)
            elif key in keywords:
                refuse(self.text, f"{name.text} is given {key} twice")
            else:
                keywords[key] = value
            if not self.separated(")"):
                break
        closing = self.close(opening, ")")
        if name.text in _FUNCTIONS and len(arguments) == 1 and not keywords:
            return self.compute(_FUNCTIONS[name.text], self.number(arguments[0], f"in {name.text}(…)"))
        return Call(name.text, tuple(arguments), tuple(keywords.items()), self.text[name.start : closing.end])

    def keyword(self) -> str | None:
        """The name of a named argument, if one comes next."""
        following = self.tokens[self.at : self.at + 2]
        if len(following) < 2 or following[0].kind != "name" or following[1].text not in ("=", ":"):
            return None
        self.at += 2
        return following[0].text

    def constant(self, token: _Token) -> float:
        """A name that stands for a number."""
        self.count()
        if token.text in _CONSTANTS:
            return _CONSTANTS[token.text]
        is_class = token.text[:1].isupper() and token.text not in ("True", "False", "None")
        example = f"{token.text}(0, 1)" if is_class else "Normal(0, 1)"
        refuse(self.text, f"{token.text!r} is no number and has no parameters in parentheses", f'"{example}"')

    def add(self, left: Value, right: Value, sign: _Token) -> Value:
        """A sum of numbers, or of the parts of a mixture."""
        if isinstance(left, Call | Mixture) and isinstance(right, Call | Mixture) and sign.text == "+":
            parts = _weighted(left), _weighted(right)
            if not all(part.weighted for part in parts):
                refuse(
                    self.text,
                    "a sum of distributions is a mixture, and its parts need weights",
                    '"0.3*Normal(0, 1) + 0.7*Normal(4, 1)"',
                )
            return Mixture(parts[0].parts + parts[1].parts, True)
        apply = operator.add if sign.text == "+" else operator.sub
        where = f"beside {sign.text} at character {sign.start + 1}"
        return self.compute(apply, self.number(left, where), self.number(right, where))

    def multiply(self, left: Value, right: Value, sign: _Token) -> Value:
        """A product of numbers, or a distribution with its weight."""
        if isinstance(left, Call | Mixture) and isinstance(right, float):
            left, right = (right, left) if sign.text == "*" else (self.compute(operator.truediv, 1.0, right), left)
            sign = sign._replace(text="*")
        if isinstance(left, float) and isinstance(right, Call | Mixture) and sign.text == "*":
            return Mixture(tuple((left * weight, call) for weight, call in _weighted(right).parts), True)
        apply = operator.mul if sign.text == "*" else operator.truediv
        where = f"beside {sign.text} at character {sign.start + 1}"
        return self.compute(apply, self.number(left, where), self.number(right, where))

    def number(self, value: Value, where: str) -> float:
        """The value, which must be a number."""
        if not isinstance(value, float):
            what = "a list" if isinstance(value, list) else "a distribution"
            refuse(self.text, f"{what} stands {where}, where a number belongs")
        return value

    def compute(self, apply: Callable[..., float], *numbers: float) -> float:
        """Arithmetic that ends in a number or in an error."""
        try:
            value = apply(*numbers)
        except (ArithmeticError, ValueError):
            value = None
        if not isinstance(value, float):
            refuse(self.text, f"it computes something that is no number from {', '.join(f'{n:g}' for n in numbers)}")
        return value

    def count(self) -> None:
        """One more number has been read."""
        self.numbers += 1
        if self.numbers > MAX_NUMBERS:
            refuse(self.text, f"it has more than {MAX_NUMBERS} numbers", "kullback explain p.npy q.npy --as probs")

    def separated(self, closing: str) -> bool:
        """Whether a comma follows; it is read."""
        if self.peek(","):
            self.take()
            return True
        if self.at < len(self.tokens) and not self.peek(closing) and not self.peek(")", "]"):
            self.unexpected(self.tokens[self.at], f"a comma or {closing!r} belongs there")
        return False

    def close(self, opening: _Token, closing: str) -> _Token:
        """Read a closing parenthesis or bracket."""
        if not self.peek(closing):
            what = "parenthesis" if opening.text == "(" else "bracket"
            refuse(
                self.text,
                f"the {what} opened at character {opening.start + 1} is not closed",
                f'"{self.text}{closing}"' if len(self.text) < 80 and self.at >= len(self.tokens) else "",
            )
        return self.take()

    def peek(self, *symbols: str) -> bool:
        """Whether one of these comes next."""
        return self.at < len(self.tokens) and self.tokens[self.at].text in symbols

    def take(self) -> _Token:
        """Read one token."""
        if self.at >= len(self.tokens):
            refuse(self.text, "it is empty" if not self.tokens else "it ends too early")
        self.at += 1
        return self.tokens[self.at - 1]

    def expect_end(self) -> None:
        """Refuse what follows the value."""
        if self.at < len(self.tokens):
            self.unexpected(self.tokens[self.at])

    def unexpected(self, token: _Token, hint: str = "") -> NoReturn:
        """Refuse a token in the wrong place."""
        closing = token.text in _OPENING
        why = f"no {_OPENING[token.text]!r} opens the {token.text!r}" if closing else f"{token.text!r} is not expected"
        refuse(self.text, f"{why} at character {token.start + 1}" + (f"; {hint}" if hint else ""))


def _tokens(text: str) -> list[_Token]:
    found = []
    plain = text.translate(_ALIKE)
    at = 0
    while at < len(plain.rstrip()):
        match = _TOKEN.match(plain, at)
        if match is None or match.lastgroup is None:
            place = at + len(plain[at:]) - len(plain[at:].lstrip())
            refuse(text, f"{text[place]!r} at character {place + 1} has no meaning here")
        start = match.start(match.lastgroup)
        found.append(_Token(match.lastgroup, match[match.lastgroup], start, match.end()))
        at = match.end()
    return found


def _weighted(value: Call | Mixture) -> Mixture:
    return value if isinstance(value, Mixture) else Mixture(((1.0, value),), False)
