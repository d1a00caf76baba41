"""The one exception of the plan floor."""


class PlanError(Exception):
    """What a user wrote cannot be done.

    Args:
        problems: Full sentences, one a problem, each naming the file and the key that it is about:
            ``FILE: KEY: found X; expected Y``.
    """

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
