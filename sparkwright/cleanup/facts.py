"""The releases, images and weights on a Spark."""

from sparkwright.cleanup.artifacts import Artifacts, artifacts_script, parse_artifacts
from sparkwright.cleanup.footprint import Footprint
from sparkwright.cleanup.footprint_survey import footprint_script, parse_footprint
from sparkwright.common.facts import HostFact


class StoredArtifacts(HostFact[Artifacts]):
    """Everything that a cleaning judges, in one command."""

    command = staticmethod(artifacts_script)
    parse = staticmethod(parse_artifacts)


class OurFootprint(HostFact[Footprint]):
    """All that we put on a Spark and that is still there, read in one command."""

    command = staticmethod(footprint_script)
    parse = staticmethod(parse_footprint)
