"""The errors of this library; each is also the builtin a user would catch.

```
KullbackError (Exception)
├── InputTypeError    (TypeError)            the wrong kind of thing: a bare tensor, integers, a distribution
├── InputValueError   (ValueError)           the right kind with impossible numbers: negative, NaN, sum not 1
│   └── ShapeError                           sizes that do not fit: class counts, batch shapes, a mask
├── NoRouteError      (NotImplementedError)  a pair of distributions that nothing here can answer
├── RegistrationError (ValueError)           a pair registered twice, or an ambiguous one
└── UnavailableError  (RuntimeError)         an optional package or a native kernel that is not there

KullbackWarning (UserWarning)                the call is legal but probably not what was meant
```

Every message says what came, what was expected and what to write instead; `explain_problem` lays the three out.
"""

from __future__ import annotations


class KullbackError(Exception):
    """Base of all errors raised by kullback."""


class InputTypeError(KullbackError, TypeError):
    """An argument is the wrong kind of thing."""


class InputValueError(KullbackError, ValueError):
    """An argument is the right kind of thing but holds impossible values."""


class ShapeError(InputValueError):
    """Sizes that do not fit together."""


class NoRouteError(KullbackError, NotImplementedError):
    """No closed form, integral or series is known for a pair of distributions."""


class RegistrationError(KullbackError, ValueError):
    """A formula was registered twice, or two registered formulas apply equally well."""


class UnavailableError(KullbackError, RuntimeError):
    """An optional package or a native kernel is needed and missing."""


class KullbackWarning(UserWarning):
    """The call is legal but probably does not compute what was meant."""


def explain_problem(problem: str, *, got: str = "", expected: str = "", instead: str = "") -> str:
    """Lay out an error message: the problem, then what came, what was expected and what to write instead.

    Example:
        >>> print(explain_problem("kl() cannot tell logits from probabilities.", got="a bare Tensor",
        ...                       expected="a view", instead="kl(Logits(a), Logits(b))"))
        kl() cannot tell logits from probabilities.
          got:      a bare Tensor
          expected: a view
          write:    kl(Logits(a), Logits(b))
    """
    lines = [problem]
    for label, text in (("got:", got), ("expected:", expected), ("write:", instead)):
        if text:
            lines.append(f"  {label:<9} {text}")
    return "\n".join(lines)
