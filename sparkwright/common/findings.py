"""Faults that the checks before any change find."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """A fault and its remedy; an error stops the run, a warning does not."""

    error: bool
    found: str
    remedy: str

    def __str__(self) -> str:
        return f"{'error' if self.error else 'warning'}: {self.found}. {self.remedy}"


def error(found: str, remedy: str) -> Finding:
    return Finding(True, found, remedy)


def warning(found: str, remedy: str) -> Finding:
    return Finding(False, found, remedy)
