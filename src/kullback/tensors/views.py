"""What the numbers of a tensor are: logits, log-probabilities, probabilities, counts, or samples."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.masked import is_masked_tensor

from kullback._core.errors import InputTypeError, InputValueError, explain_problem
from kullback._core.validation import Kind
from kullback.kernels.sides import Encoding

_INTEGERS = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64}
_LOGARITHMS, _WEIGHTS = Encoding(), Encoding(linear=True)


class View:
    """A tensor together with what its numbers are and which dimension holds the classes.

    Nothing is copied or computed; the values are looked at by the function that takes the view.

    Attributes:
        tensor: The tensor as it was handed over.
        dim: The class dimension.
    """

    kind: ClassVar[Kind]
    tensor: Tensor
    dim: int

    def __init__(self, tensor: Tensor, dim: int = -1) -> None:
        _check_tensor(tensor, self.kind)
        _check_dim(dim, self.kind)
        self.tensor = tensor
        self.dim = dim

    @property
    def encoding(self) -> Encoding:
        """How a kernel reads the numbers."""
        return _LOGARITHMS

    def with_tensor(self, tensor: Tensor, dim: int | None = None) -> View:
        """The same kind of view of another tensor."""
        return type(self)(tensor, self.dim if dim is None else dim)

    def __repr__(self) -> str:
        return f"{self.kind}(tensor of shape {tuple(self.tensor.shape)}, {self.tensor.dtype}, dim={self.dim})"


class Logits(View):
    """Unnormalised log-probabilities: p = softmax(tensor). An entry of -inf is outside the support.

    Example:
        >>> import torch
        >>> from kullback import Logits, kl
        >>> kl(Logits(torch.tensor([0.0, 0.0])), Logits(torch.tensor([0.0, -800.0])))
        tensor(399.3069)
    """

    kind = "Logits"


class LogProbs(View):
    """Normalised log-probabilities, as `log_softmax` gives them. An entry of -inf is outside the support.

    Example:
        >>> import torch
        >>> from kullback import LogProbs, kl
        >>> log_p = torch.tensor([1.0, 2.0, 3.0]).log_softmax(-1)
        >>> kl(LogProbs(log_p), LogProbs(log_p))
        tensor(0.)
    """

    kind = "LogProbs"


class Probs(View):
    """Probabilities, as `softmax` gives them.

    Example:
        >>> import torch
        >>> from kullback import Probs, kl
        >>> kl(Probs(torch.tensor([0.36, 0.48, 0.16])), Probs(torch.full((3,), 1 / 3)))
        tensor(0.0853)
    """

    kind = "Probs"

    @property
    def encoding(self) -> Encoding:
        """Weights, not logarithms."""
        return _WEIGHTS


class Counts(View):
    """Non-negative counts or scores, normalised by their sum after `smoothing` is added to every class.

    Integers are read as float64.

    Example:
        >>> import torch
        >>> from kullback import Counts, kl
        >>> kl(Counts(torch.tensor([3, 1, 0])), Counts(torch.tensor([2, 0, 1]), smoothing=1.0), base=2)
        tensor(0.5850, dtype=torch.float64)
    """

    kind = "Counts"
    smoothing: float

    def __init__(self, tensor: Tensor, dim: int = -1, smoothing: float = 0.0) -> None:
        if isinstance(tensor, Tensor) and tensor.dtype in _INTEGERS:
            tensor = tensor.to(torch.float64)
        super().__init__(tensor, dim)
        try:
            smoothing = float(smoothing)
        except (TypeError, ValueError):
            raise InputTypeError(
                explain_problem(
                    "Smoothing is added to every class.",
                    got=f"smoothing={smoothing!r}",
                    expected="a number >= 0",
                    instead="Counts(x, smoothing=1.0)",
                )
            ) from None
        if not 0 <= smoothing < math.inf:
            raise InputValueError(
                explain_problem("Smoothing is a finite number >= 0.", got=f"smoothing={smoothing!r}", expected=">= 0")
            )
        self.smoothing = smoothing

    @property
    def encoding(self) -> Encoding:
        """Weights, not logarithms."""
        return Encoding(linear=True, smoothing=self.smoothing)

    def with_tensor(self, tensor: Tensor, dim: int | None = None) -> View:
        """The same kind of view of another tensor."""
        return Counts(tensor, self.dim if dim is None else dim, self.smoothing)


class Samples:
    """Draws from a distribution, of shape (n,) or (n, d). The exact divergences refuse them.

    Attributes:
        tensor: The draws.
    """

    tensor: Tensor

    def __init__(self, tensor: Tensor) -> None:
        if isinstance(tensor, Tensor):
            _check_layout(tensor, "Samples")
        if not isinstance(tensor, Tensor) or tensor.dim() not in (1, 2):
            raise InputTypeError(
                explain_problem(
                    "Samples are a tensor of draws.",
                    got=f"shape {tuple(tensor.shape)}" if isinstance(tensor, Tensor) else type(tensor).__name__,
                    expected="a tensor of shape (n,) or (n, d)",
                )
            )
        self.tensor = tensor

    def __repr__(self) -> str:
        return f"Samples(tensor of shape {tuple(self.tensor.shape)}, {self.tensor.dtype})"


def _check_tensor(tensor: object, kind: Kind) -> None:
    if not isinstance(tensor, Tensor):
        nested = isinstance(tensor, (View, Samples))
        is_output = isinstance(getattr(tensor, "logits", None), Tensor)
        raise InputTypeError(
            explain_problem(
                f"{kind} wraps a tensor.",
                got=f"{type(tensor).__name__}" + (": already wrapped" if nested else ""),
                expected="a torch.Tensor of floating dtype",
                instead="" if nested else "Logits(output.logits)" if is_output else f"{kind}(torch.as_tensor(x))",
            )
        )
    _check_layout(tensor, kind)
    if tensor.is_floating_point():
        return
    if tensor.is_complex():
        raise InputTypeError(
            explain_problem(
                f"{kind} are real numbers.",
                got=f"a complex tensor of {tensor.dtype}, shape {tuple(tensor.shape)}",
                expected="a real floating dtype",
                instead=f"{kind}(x.real) if the imaginary part is zero",
            )
        )
    instead = {
        "Probs": "Probs(torch.nn.functional.one_hot(labels, K).float()) for class indices, Counts(x) for counts",
        "Counts": "Counts(x.long())",
    }
    raise InputTypeError(
        explain_problem(
            f"{kind} are real numbers; integers here are usually class indices passed as a distribution.",
            got=f"a tensor of {tensor.dtype}, shape {tuple(tensor.shape)}",
            expected="a floating dtype, with a class dimension",
            instead=instead.get(
                kind, "torch.nn.functional.cross_entropy(logits, labels) for class indices, x.float() otherwise"
            ),
        )
    )


def _check_dim(dim: object, kind: Kind) -> None:
    if not (isinstance(dim, int) or hasattr(dim, "__index__")):
        raise InputTypeError(
            explain_problem(
                "The class dimension is given by its number.",
                got=f"dim={dim!r}",
                expected="one integer, negative to count from the last dimension",
                instead=f"{kind}(x, dim=1)",
            )
        )


def _check_layout(tensor: Tensor, kind: Kind | Literal["Samples"]) -> None:
    masked = type(tensor) is not Tensor and is_masked_tensor(tensor)
    if tensor.layout == torch.strided and not (tensor.is_nested or tensor.is_quantized or masked):
        return
    if masked:
        found, instead = "a masked tensor", f"{kind}(x.get_data()) and mask=x.get_mask().all(-1) for the rows to keep"
    elif tensor.is_quantized:
        found, instead = "a quantized tensor", f"{kind}(x.dequantize())"
    elif tensor.is_nested and kind == "Samples":
        found, instead = "a nested tensor", "Samples(torch.cat(x.unbind()))"
    elif tensor.is_nested:
        found = "a nested tensor"
        instead = f"{kind}(torch.nested.to_padded_tensor(x, 0.0)) with mask= for the rows that are padding"
    elif tensor.layout == torch._mkldnn:  # type: ignore[attr-defined]
        found, instead = "an mkldnn tensor", f"{kind}(x.to_dense())"
    else:
        found = f"a sparse tensor ({tensor.layout})"
        zero = ": entries that are not stored are zeros, not -inf" if kind in ("Logits", "LogProbs") else ""
        instead = f"{kind}(x.to_dense()){zero}"
    raise InputTypeError(
        explain_problem(f"{kind} wraps an ordinary dense tensor.", got=found, expected="torch.strided", instead=instead)
    )
