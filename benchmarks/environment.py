"""What the numbers depend on besides the code: recorded with every run."""

from __future__ import annotations

import os
import platform
from pathlib import Path

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
CPU_INFO = Path("/proc/cpuinfo")


def describe() -> dict[str, object]:
    """Threads, versions, processor, huge pages and the kernels in use, as JSON-ready values."""
    import torch

    import kullback

    return {
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "cpu": cpu_model(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "kullback": kullback.__version__,
        "kernels": str(kullback.kernels.status()),
        "transparent_huge_pages": transparent_huge_pages(),
        # torch's CPU allocator asks for huge pages only when this is 1; above 2 MB it decides page-fault costs.
        "THP_MEM_ALLOC_ENABLE": os.environ.get("THP_MEM_ALLOC_ENABLE", "unset"),
    }


def cpu_model(path: Path = CPU_INFO) -> str:
    """The processor's name."""
    if path.is_file():
        for line in path.read_text().splitlines():
            if line.lower().startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def transparent_huge_pages(path: Path = HUGE_PAGES) -> str:
    """The kernel's setting (the word in brackets), or "unknown" where there is none."""
    if not path.is_file():
        return "unknown"
    text = path.read_text().strip()
    return text.partition("[")[2].partition("]")[0] or text
