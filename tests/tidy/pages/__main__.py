"""`make docs`: writes every generated page."""

from tests.tidy.pages.generated import GENERATED

for page, render in GENERATED.items():
    page.write_text(render())
