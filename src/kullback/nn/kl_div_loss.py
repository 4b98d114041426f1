"""`KLDivLoss`, the module form of `kl_div`."""

from __future__ import annotations

import torch
from torch import Tensor

from kullback.nn.functional import kl_div
from kullback.nn.reductions import translate_legacy


class KLDivLoss(torch.nn.KLDivLoss):
    """KL(target ‖ input) as a module: `KLDivLoss(reduction="batchmean")(log_q, p)` is KL(p ‖ q).

    `input` holds the model's log-probabilities log q, `target` the probabilities p (log p with `log_target=True`); see
    `kullback.nn.functional.kl_div` for the formula, the reductions and the differences from torch. A subclass of
    `torch.nn.KLDivLoss`, so that code which looks at a criterion with `isinstance` keeps working; `repr`, attributes
    and (empty) state dict are torch's.

    Args:
        size_average: Deprecated. Comes first for torch's sake: `KLDivLoss("batchmean")` means "mean" and warns.
        reduce: Deprecated.
        reduction: "none", "sum", "batchmean" or "mean" (torch's default, which divides by the number of elements).
        log_target: Whether `target` holds log-probabilities.

    Example:
        >>> import torch
        >>> from kullback.nn import KLDivLoss
        >>> criterion = KLDivLoss(reduction="batchmean", log_target=True)
        >>> log_p = torch.tensor([[0.5, 0.5]]).log()
        >>> log_q = torch.tensor([[0.25, 0.75]]).log().requires_grad_()
        >>> criterion(log_q, log_p).backward()
        >>> log_q.grad
        tensor([[-0.5000, -0.5000]])
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        if size_average is not None or reduce is not None:
            reduction = translate_legacy(size_average, reduce, quiet=torch.compiler.is_compiling())
        super().__init__(reduction=reduction, log_target=log_target)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """KL(target ‖ input), reduced."""
        return kl_div(input, target, reduction=self.reduction, log_target=self.log_target)
