"""What a rollout looks at."""

import shlex
from collections.abc import Iterable

from pyinfra.api import FactBase
from pyinfra.api.exceptions import FactProcessError

from deploys.plan.standing import Standing, parse_standing, standing_script


class ServingRelease(FactBase[Standing | None]):
    """What a Spark serves; None where it does not say."""

    def command(self, root: str) -> str:
        return standing_script(root)

    def process(self, output: Iterable[str]) -> Standing:
        try:
            return parse_standing(output)
        except (KeyError, ValueError) as error:
            raise FactProcessError(f"what serves is unreadable: {error!r}") from error


class Speed(FactBase[str]):
    """Tokens a second of one stream, or why there is no such figure."""

    default = str

    def command(self, root: str, url: str, model: str) -> str:
        return (
            f"python3 {shlex.quote(f'{root}/bin/speed.py')} {shlex.join([url, model])} 2>&1; true"
        )

    def process(self, output: Iterable[str]) -> str:
        return "\n".join(output).strip()
