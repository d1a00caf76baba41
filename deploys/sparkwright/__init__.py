"""A stand-in for the library: `python deploys/X.py` imports it, as it looks in this folder first.

Such a run is not one of pyinfra's: it ends by naming the command that is.
"""

import sys
from pathlib import Path

_file = Path(sys.argv[0]).resolve()
_folder = Path(__file__).resolve().parents[1]
if _file.parent != _folder:
    raise ImportError("found the folder deploys; expected the project's root")
_program = "__main__" in _file.read_text(encoding="utf-8")
_right = (
    f"python -m deploys.{_file.stem}" if _program else f"pyinfra inventory.py deploys/{_file.name}"
)
sys.exit(f"found python {sys.argv[0]}; expected: cd {_folder.parent} && {_right}")
