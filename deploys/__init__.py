"""What pyinfra runs, and programs: python -m deploys.lock."""

import sys
from pathlib import Path

# Python 3.9 has none; it is refused soon.
_words = getattr(sys, "orig_argv", [])
if sys.argv[0] == "-m" and "-m" in _words:
    # Python is about to run one of the modules, of which few are programs.
    _file = Path(__file__).with_name(_words[_words.index("-m") + 1].rpartition(".")[2] + ".py")
    if _file.exists() and "__main__" not in _file.read_text(encoding="utf-8"):
        sys.exit(
            f"found python -m deploys.{_file.stem}; expected pyinfra inventory.py "
            f"deploys/{_file.name}"
        )
