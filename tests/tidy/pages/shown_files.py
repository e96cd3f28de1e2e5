"""Pages that show files of the repository: a block with a `title` contains that file."""

import re
from pathlib import Path

from tests.tidy.sources import ROOT

_SHOWN = re.compile(r'^(```yaml title="([^"]+)"\n).*?^```$', re.DOTALL | re.MULTILINE)


def render(page: Path) -> str:
    """Returns the page with the current contents of every such file."""
    return _SHOWN.sub(
        lambda block: f"{block[1]}{(ROOT / block[2]).read_text()}```", page.read_text()
    )
