"""Takes the pictures of the documents from real runs: `make pictures`. It needs Chromium and Spark.

Not here: whether the pages are right; `test_browser` asks that.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.page.browser import Browser
from tests.page.cast import COLUMNS, Shown, as_cast
from tests.page.terminal import as_page

SUITES: Final = Path(__file__).with_name("pictured")
FORGOTTEN: Final = "consumer.commit(asynchronous=False)"
"""What mends the job of `pictured/billing.py`, before it closes its consumer."""
TELLING: Final = ("[b'tea', b'tea']", "billing  Empty", "invoices-0 at 1")
PICTURES: Final = Path(__file__).parents[2] / "docs" / "assets" / "pictures"
WIDTH: Final = 1180


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        pages = Path(folder)
        run, audit, terminal = (pages / f"{name}.html" for name in ("run", "audit", "terminal"))
        _run_red(pages, "shop.py", f"--kafka-report={run}")
        printed = _run_red(pages, "ledger.py", "--color=yes", "--tb=short", AUDIT_PAGE=str(audit))
        terminal.write_text(as_page(_refutation(printed)))
        (PICTURES / "red-to-green.svg").write_text(as_cast(_red_to_green(pages)))
        with Browser(pages / "profile", width=WIDTH, height=1440) as browser:
            browser.prefer("light")
            browser.open(run.as_uri())
            browser.wait_for("document.querySelectorAll('.failure svg rect').length > 3")
            browser.picture(PICTURES / "run.png")
            _picture_whole(browser, audit, PICTURES / "audit.png")
            _picture_whole(browser, terminal, PICTURES / "explore.png")


def _run_red(folder: Path, suite: str, *options: str, **environment: str) -> str:
    """What pytest prints of a suite of which one test fails."""
    shutil.copy(SUITES / suite, folder)
    printed = _run(folder, suite, *options, **environment)
    assert "1 failed" in printed, printed
    return printed


def _run(folder: Path, suite: str, *options: str, **environment: str) -> str:
    plain = ["-p", "no:cacheprovider", "-p", "no:asyncio"]
    command = [sys.executable, "-m", "pytest", *plain, suite, *options]
    return _printed(folder, *command, **environment)


def _printed(folder: Path, *command: str, **environment: str) -> str:
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    ).stdout


def _red_to_green(folder: Path) -> list[Shown]:
    """A test that fails, what mends its job, and the test again."""
    suite, options = "billing.py", ("--color=yes", "--no-header", "--tb=short", "-rN")
    red = _run_red(folder, suite, *options, COLUMNS=str(COLUMNS))
    job = (folder / suite).read_text()
    (folder / suite).write_text(job.replace("consumer.close", f"{FORGOTTEN}\n    consumer.close"))
    changed = ("git", "diff", "--no-index", "--color", "-U1", str(SUITES / suite), suite)
    diff = "\n".join(_printed(folder, *changed).rstrip().splitlines()[4:])  # without the files
    green = _run(folder, suite, *options, COLUMNS=str(COLUMNS))
    assert "1 passed" in green, green
    return [
        Shown(f"pytest {suite}", red, 7, TELLING),
        Shown("git diff", diff, 4),
        Shown(f"pytest {suite}", green, 4),
    ]


def _refutation(printed: str) -> str:
    """The failure's message: from the name of the test to the report of its cluster."""
    lines = printed.splitlines()
    plain = [line.strip("\x1b[0123456789;m") for line in lines]
    begins = next(at for at, line in enumerate(plain) if line.startswith("____"))
    ends = next(at for at, line in enumerate(plain) if at > begins and line.startswith("----"))
    return "\n".join(["$ pytest ledger.py", *lines[begins:ends]])


def _picture_whole(browser: Browser, page: Path, picture: Path) -> None:
    browser.resize(WIDTH, 100)
    browser.open(page.as_uri())
    browser.wait_for(f"location.pathname.endsWith('{page.name}') && document.body.offsetHeight")
    browser.resize(WIDTH, int(browser.run("document.documentElement.scrollHeight")))
    browser.picture(picture)


if __name__ == "__main__":
    main()
