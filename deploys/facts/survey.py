"""What a Spark is, before anything is changed."""

from collections.abc import Iterable, Sequence

from pyinfra.api import FactBase
from pyinfra.api.exceptions import FactProcessError

from deploys.plan.survey import Survey, parse_survey, survey_script


class HostSurvey(FactBase[Survey]):
    """Everything that the preflight judges, read in one command."""

    def command(
        self, root: str, ports: Sequence[int], images: Sequence[str], folders: Sequence[str]
    ) -> str:
        return survey_script(root=root, ports=ports, images=images, folders=folders)

    def process(self, output: Iterable[str]) -> Survey:
        try:
            return parse_survey(output)
        except ValueError as error:
            raise FactProcessError(str(error)) from error
