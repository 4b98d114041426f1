"""KL divergence for PyTorch that is right the first time.

The public names stand in `__init__.pyi`, each with the file it comes from. They are resolved on first use, so that
importing this package costs nothing beyond torch and the command line can print its help without torch.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
