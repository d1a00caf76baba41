"""Real vLLM judges recipes: the release that each names reads what its units would run."""

import argparse


def parser(module: str, doc: str | None) -> argparse.ArgumentParser:
    """Return the parser of a module's command line."""
    kind = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(f"python -m {module}", description=doc, formatter_class=kind)
