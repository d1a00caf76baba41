"""The facts of jobs on a Spark, and of the tools and images that they bring."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from sparkwright.common.facts import HostFact
from sparkwright.common.progress import JobProgress, parse_progress


class EnvironmentStamp(HostFact[str | None]):
    """sha256 of the requirements of a virtual environment; None if it does not work."""

    def command(self, path: str) -> str:
        # After an upgrade of the system's Python, an environment starts but lacks its packages.
        return (
            f"cd {shlex.quote(path)} 2>/dev/null && "
            "bin/python -c 'import pip, huggingface_hub' 2>/dev/null && "
            "sha256sum .requirements 2>/dev/null; true"
        )

    def parse(self, output: list[str]) -> str | None:
        return output[0].split()[0]


@dataclass(frozen=True)
class JobState:
    """The state of a job's unit, and the last progress report of the job."""

    active: str
    progress: JobProgress | None


class JobStates(HostFact[dict[str, JobState]]):
    """The states of jobs by unit name without its suffix, such as "weights@qwen36-nvfp4".

    Links are not followed: the untrusted user who fetches weights can write in their folder.
    """

    momentary = True

    default = dict

    def command(self, root: str, jobs: Sequence[str]) -> str:
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
        lines = [line.split("\t", 2) for line in output]
        return {job: JobState(active, parse_progress(text)) for job, active, text in lines}


class ImageState(HostFact[str]):
    """An image in Docker, by any of its names: "present", "absent", or Docker's error."""

    def command(self, references: Sequence[str]) -> str:
        return f"docker image inspect --format present {shlex.join(references)} 2>&1 || true"

    def parse(self, output: list[str]) -> str:
        text = " ".join(filter(None, map(str.strip, output)))
        if "present" in output:
            return "present"
        return "absent" if "no such image" in text.lower() else text


class ImageId(HostFact[str]):
    """The id of an image in Docker's store; "" if there is no such image."""

    default = str
    template = "{{.Id}}"

    def command(self, image: str) -> str:
        template = shlex.quote(self.template)
        return f"docker image inspect --format {template} {shlex.quote(image)} 2>/dev/null || true"

    def parse(self, output: list[str]) -> str:
        return "".join(output).strip()


class ImageSize(ImageId):
    """Bytes of an image, about; "" if there is no such image."""

    template = "{{.Size}}"


class ImageContent(ImageId):
    """The layers of an image and the configuration that its containers take over.

    They identify its content, unlike the id, which depends on Docker's store.
    """

    template = "{{json .RootFS.Layers}} " + " ".join(
        f"{{{{json .Config.{key}}}}}" for key in ("Entrypoint", "Cmd", "Env", "User", "WorkingDir")
    )
