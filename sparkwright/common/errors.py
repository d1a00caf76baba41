"""The exception for invalid input."""

from sparkwright.common.terminal import plain_lines

# Characters of a problem: some list all known names.
_PROBLEM = 20_000


class PlanError(Exception):
    """Input that is invalid.

    Args:
        problems: One sentence for each problem, which names file and key:
            ``FILE: KEY: found X; expected Y``. Control characters in it are replaced.
    """

    def __init__(self, *problems: str) -> None:
        self.problems = tuple(plain_lines(each, _PROBLEM) for each in problems)
        super().__init__("\n".join(self.problems))
