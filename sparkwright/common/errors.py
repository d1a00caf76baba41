"""The one exception of the plan floor."""

from sparkwright.common.terminal import plain_lines

# Characters of a problem: some list all the names that there are.
_PROBLEM = 20_000


class PlanError(Exception):
    """An error in what a user wrote, which cannot be done.

    Args:
        problems: Full sentences, one a problem, each naming the file and the key that it is about:
            ``FILE: KEY: found X; expected Y``. What a file or a hub says in them becomes plain.
    """

    def __init__(self, *problems: str) -> None:
        self.problems = tuple(plain_lines(each, _PROBLEM) for each in problems)
        super().__init__("\n".join(self.problems))
