"""The drop-in face: `KLDivLoss` and `functional.kl_div`, torch's semantics without its wrong answers.

`kl_div(input, target)` is KL(target ‖ input): `target` holds the probabilities p, `input` the log-probabilities log q.
"""

from kullback.nn import functional
from kullback.nn.kl_div_loss import KLDivLoss

__all__ = ["KLDivLoss", "functional"]
