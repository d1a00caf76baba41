"""Jobs on a Spark, and what they are there to bring: tools, weights and images."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from sparkwright.common.facts import HostFact
from sparkwright.common.progress import JobProgress, parse_progress


class EnvironmentStamp(HostFact[str | None]):
    """sha256 of the requirements that a virtual environment was made of; None if it is unfit.

    An upgrade of the system's Python leaves an environment that starts but lacks its packages.
    """

    def command(self, path: str) -> str:
        """Return a command that prints the digest of an environment that works."""
        return (
            f"cd {shlex.quote(path)} 2>/dev/null && "
            "bin/python -c 'import pip, huggingface_hub' 2>/dev/null && "
            "sha256sum .requirements 2>/dev/null; true"
        )

    def parse(self, output: list[str]) -> str | None:
        """Return the digest."""
        return output[0].split()[0]


@dataclass(frozen=True)
class JobState:
    """A job's unit as systemd has it, and what the job itself wrote last."""

    active: str
    progress: JobProgress | None


class JobStates(HostFact[dict[str, JobState]]):
    """The states of jobs by unit name without its suffix, such as "weights@qwen36-nvfp4"."""

    default = dict

    def command(self, root: str, jobs: Sequence[str]) -> str:
        """Return one command for all jobs.

        What fetches weights is a user of its own, which may write in their folder alone: what
        stands there is no file to be followed elsewhere.
        """
        return f"""
cd {shlex.quote(root)} 2>/dev/null
for job in {shlex.join(jobs)}; do
  case "$job" in
    weights@*) report="${{job#weights@}}/.sparkwright-progress.json" ;;
    *) report="jobs/$job.json" ;;
  esac
  said=; [ -L "$report" ] || [ ! -f "$report" ] || said=$(head -c 65536 "$report" | tr -d '\\n')
  printf '%s\\t%s\\t%s\\n' "$job" "$(systemctl show -P ActiveState "$job.service")" "$said"
done"""

    def parse(self, output: list[str]) -> dict[str, JobState]:
        """Return the states by job."""
        lines = [line.split("\t", 2) for line in output]
        return {job: JobState(active, parse_progress(text)) for job, active, text in lines}


class ImageState(HostFact[str]):
    """An image in Docker: "present", "absent", or why Docker cannot tell."""

    def command(self, references: Sequence[str]) -> str:
        """Return a command that exits 0 whatever Docker says; any of the names will do."""
        return f"docker image inspect --format present {shlex.join(references)} 2>&1 || true"

    def parse(self, output: list[str]) -> str:
        """Tell Docker's "no" from no answer."""
        said = " ".join(filter(None, map(str.strip, output)))
        if "present" in output:
            return "present"
        return "absent" if "no such image" in said.lower() else said


class ImageId(HostFact[str]):
    """The id of an image in Docker's store; "" if it has none of that name."""

    default = str

    def command(self, image: str) -> str:
        """Return a command that prints the digest."""
        return _inspect(image, "{{.Id}}")

    def parse(self, output: list[str]) -> str:
        """Return it as it is."""
        return "".join(output).strip()


class ImageContent(HostFact[str]):
    """The layers and command of an image, whatever Docker's store calls it."""

    default = str

    def command(self, image: str) -> str:
        """Return a command that prints the digests of its layers and what of its configuration
        a container takes over, nothing if there is no such image.
        """
        parts = ("Entrypoint", "Cmd", "Env", "User", "WorkingDir")
        config = " ".join(f"{{{{json .Config.{part}}}}}" for part in parts)
        return _inspect(image, f"{{{{json .RootFS.Layers}}}} {config}")

    def parse(self, output: list[str]) -> str:
        """Return them as they are."""
        return "".join(output).strip()


def _inspect(image: str, template: str) -> str:
    """Return a command that prints what Docker knows of an image, nothing if there is none."""
    return (
        f"docker image inspect --format {shlex.quote(template)} {shlex.quote(image)} 2>/dev/null "
        "|| true"
    )
