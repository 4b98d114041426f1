"""The other divergences per row: one op each; `api` calls them through `tensors`."""

from __future__ import annotations

from collections.abc import Callable

from kullback.kernels.f_rows import mixtures, ratios, renyi
from kullback.kernels.f_rows.mixture_gradients import mixture_gradients
from kullback.kernels.native_rows import NativeRows, Settings
from kullback.kernels.row_op import RowOp
from kullback.kernels.row_run import Value

# `RowFunction` and `Outer` in csrc/rows/call.h.
_KL, _MIXTURE, _POWER, _JEFFREYS, _VARIATION = 0, 1, 4, 5, 6
_TIMES, _ROOT, _EXPM1, _ROOT_OF_LACK = 1, 2, 3, 4
_END = 1e-6  # the square of a smaller share would take the terms of a mixture out of the range of float
_LARGEST_ORDER = 1e4  # of a power: beyond, the reference does not multiply log-ratios by it


def _mixture(name: str, value: Value, weights: Callable[..., tuple[float, float, float]]) -> RowOp:
    """`weights`: from the options to the share of p in the mixture and what multiplies the two divergences from it."""

    def settings(*options: float) -> Settings | None:
        share, *both = weights(*options)
        return Settings(_MIXTURE, share, (both[0], both[1])) if _END <= share <= 1.0 - _END else None

    return RowOp(value, mixture_gradients(weights), NativeRows(name, settings))


def _renyi_settings(alpha: float) -> Settings | None:
    if alpha == 1.0:
        return Settings(_KL)
    if not 0.0 < alpha <= _LARGEST_ORDER:
        return None
    return Settings(_POWER, alpha, outer=_TIMES, unit=1.0 / (alpha - 1.0))


js_rows = _mixture("js", mixtures.js_value, lambda: (0.5, 0.5, 0.5))
js_distance_rows = RowOp(
    mixtures.js_distance_value,
    native=NativeRows("js_distance", lambda unit: Settings(_MIXTURE, 0.5, (0.5, 0.5), _ROOT, 1.0 / unit)),
)
skew_kl_rows = _mixture("skew_kl", mixtures.skew_kl_value, lambda alpha: (alpha, 1.0, 0.0))
scaled_js_rows = _mixture("scaled_js", mixtures.scaled_js_value, mixtures.scaled_js_weights)
jeffreys_rows = RowOp(ratios.jeffreys_value, native=NativeRows("jeffreys", lambda: Settings(_JEFFREYS)))
total_variation_rows = RowOp(
    ratios.total_variation_value, native=NativeRows("total_variation", lambda: Settings(_VARIATION))
)
hellinger_rows = RowOp(
    ratios.hellinger_value, native=NativeRows("hellinger", lambda: Settings(_POWER, 0.5, outer=_ROOT_OF_LACK))
)
chi2_rows = RowOp(ratios.chi2_value, native=NativeRows("chi2", lambda: Settings(_POWER, 2.0, outer=_EXPM1)))
renyi_rows = RowOp(renyi.renyi_value, native=NativeRows("renyi", _renyi_settings))
