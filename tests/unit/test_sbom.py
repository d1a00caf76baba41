"""`make sbom` is about all that the product installs."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_list_of_packages_of_the_product_is_in_it() -> None:
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", "")
    named = re.search(r"^SBOM_OF := (.*)$", makefile, re.MULTILINE)
    assert named
    lists = [*ROOT.glob("requirements.lock"), *(ROOT / "files").rglob("requirements*.txt")]
    assert sorted(named[1].split()) == sorted(str(path.relative_to(ROOT)) for path in lists)
