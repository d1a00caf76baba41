"""The survey of a Spark, before anything is changed."""

from sparkwright.common.facts import HostFact
from sparkwright.host.survey import Survey, parse_survey, survey_script


class HostSurvey(HostFact[Survey]):
    """Everything that the preflight judges, read in one command."""

    command = staticmethod(survey_script)
    parse = staticmethod(parse_survey)
