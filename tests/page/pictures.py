"""Takes the pictures of README from a real run: `make pictures`. It needs Chromium and Spark.

Not here: whether the page is right; `test_browser` asks that.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.page.browser import Browser

SUITE = Path(__file__).with_name("pictured") / "shop.py"
PICTURES = Path(__file__).parents[2] / "docs" / "assets" / "pictures"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", SUITE.name]
        done = subprocess.run(
            [*command, f"--rootdir={SUITE.parent}", f"--kafka-report={page}"],
            cwd=SUITE.parent,
            check=False,
        )
        assert done.returncode == 1, "one test is red"
        PICTURES.mkdir(exist_ok=True)
        with Browser(Path(folder) / "profile", width=1180, height=1440) as browser:
            browser.prefer("light")
            browser.open(page.as_uri())
            browser.wait_for("document.querySelectorAll('.failure svg rect').length > 3")
            browser.picture(PICTURES / "run.png")


if __name__ == "__main__":
    main()
