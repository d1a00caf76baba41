"""Jobs as they are on a Spark, and the environment of their programs."""

from typing import ClassVar

from sparkwright.common.part import Bounded, Part
from sparkwright.common.progress import JobProgress


class Environment(Part):
    """A virtual environment: sha256 of its requirements, None if it does not work."""

    part: ClassVar = "artifacts.environment"

    requirements: str | None


class JobState(Bounded):
    """The state of a job's unit, in systemd's word, and the last progress report of the job."""

    active: str = "failed"
    progress: JobProgress | None = None


class Jobs(Part):
    """Jobs by unit name without its suffix, such as "weights@qwen36-nvfp4"."""

    part: ClassVar = "artifacts.jobs"

    jobs: dict[str, JobState]
