"""Closed forms of KL(p ‖ q), by the family of p; `pairs.registry` finds them. Importing this package registers them.

Related families share a file: `gamma` has Exponential and InverseGamma, `gumbel` has Weibull, `normal` has HalfNormal
and LogNormal, `cauchy` has HalfCauchy, `categorical` has OneHotCategorical and Multinomial, `counts` has Bernoulli,
Binomial, Geometric and Poisson.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
