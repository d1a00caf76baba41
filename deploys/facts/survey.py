"""The survey of a Spark, before anything is changed."""

from collections.abc import Sequence

from deploys.facts.host_fact import HostFact
from deploys.plan.survey import Survey, parse_survey, survey_script


class HostSurvey(HostFact[Survey]):
    """Everything that the preflight judges, read in one command."""

    def command(
        self, root: str, ports: Sequence[int], images: Sequence[str], folders: Sequence[str]
    ) -> str:
        return survey_script(root=root, ports=ports, images=images, folders=folders)

    def parse(self, output: list[str]) -> Survey:
        return parse_survey(output)
