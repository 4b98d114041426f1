"""Show a document in Chromium, without a display, and measure it; for tests of HTML."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDTHS = (390, 1280)

# The document is shown in frames of each width by a page that may run scripts; the document itself may not.
_HARNESS = """<!DOCTYPE html><body><pre id="out"></pre><script>
const widths = {widths}, out = [];
for (const width of widths) {{
  const frame = document.createElement("iframe");
  frame.width = width; frame.height = 900; frame.src = {name};
  frame.onload = () => {{
    const doc = frame.contentDocument, body = getComputedStyle(doc.body);
    out.push({{
      width: width,
      scrollWidth: doc.documentElement.scrollWidth,
      resources: frame.contentWindow.performance.getEntriesByType("resource").map(e => e.name),
      background: body.backgroundColor,
      color: body.color,
      elements: doc.querySelectorAll("*").length,
      smallest: Math.min(...[...doc.querySelectorAll("figure text")].map(e => e.getBoundingClientRect().height), 99),
      scripts: doc.scripts.length,
      text: doc.body.innerText,
    }});
    if (out.length == widths.length) document.getElementById("out").textContent = JSON.stringify(out);
  }};
  document.body.append(frame);
}}
</script></body>"""


def measure(document: str, folder: Path, *, dark: bool = False) -> tuple[list[dict[str, Any]], list[str]]:
    """What a browser makes of the document at each width, and the messages of its console."""
    (folder / "document.html").write_text(document, encoding="utf-8")
    harness = folder / "harness.html"
    harness.write_text(_HARNESS.format(widths=list(WIDTHS), name=json.dumps("document.html")), encoding="utf-8")
    done = subprocess.run(
        [
            str(CHROMIUM),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--allow-file-access-from-files",
            f"--user-data-dir={folder / 'profile'}",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            "--enable-logging=stderr",
            "--virtual-time-budget=5000",
            "--dump-dom",
            harness.as_uri(),
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    found = re.search(r'<pre id="out">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stdout + done.stderr
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(unescape(found[1])), console
