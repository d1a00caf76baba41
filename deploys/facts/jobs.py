"""Jobs on a Spark, and what they are there to bring: tools, weights and images."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from pyinfra.api import FactBase
from pyinfra.api.exceptions import FactProcessError

from deploys.plan.progress import Progress, parse_progress
from deploys.plan.weights import Folder, parse_folders


class EnvironmentStamp(FactBase[str | None]):
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

    def process(self, output: list[str]) -> str | None:
        """Return the digest."""
        return output[0].split()[0]


@dataclass(frozen=True)
class JobState:
    """A job's unit as systemd has it, and what the job itself wrote last."""

    active: str
    progress: Progress | None


class JobStates(FactBase[dict[str, JobState]]):
    """The states of jobs by unit name without its suffix, such as "weights@qwen36-nvfp4"."""

    default = dict

    def command(self, root: str, jobs: Sequence[str]) -> str:
        """Return one command for all jobs."""
        folder = shlex.quote(f"{root}/jobs")
        return (
            f"for job in {shlex.join(jobs)}; do "
            'printf "%s\\t%s\\t%s\\n" "$job" "$(systemctl show -P ActiveState "$job.service")" '
            f'"$(cat {folder}/"$job.json" 2>/dev/null)"; done'
        )

    def process(self, output: list[str]) -> dict[str, JobState]:
        """Return the states by job."""
        try:
            lines = [line.split("\t", 2) for line in output]
            return {job: JobState(active, parse_progress(text)) for job, active, text in lines}
        except (ValueError, KeyError) as error:
            raise FactProcessError(f"unexpected lines from the host: {output}") from error


class WeightFolders(FactBase[dict[str, Folder]]):
    """What stands in checkpoint folders, without reading any weights."""

    default = dict

    def command(self, root: str, folders: Sequence[str]) -> str:
        """Return one command for all folders; it fails where something cannot be read."""
        return f"""
for folder in {shlex.join(folders)}; do
  printf 'folder\\t%s\\n' "$folder"
  cd {shlex.quote(root)} 2>/dev/null || continue
  if [ -e "manifests/$folder.json" ]; then
    printf 'manifest\\t%s\\n' "$(sha256sum < "manifests/$folder.json")"
  fi
  [ -d "$folder" ] || continue
  cd "$folder" || exit 1
  if [ -e .sparkwright.json ]; then printf 'record\\t%s\\n' "$(cat .sparkwright.json)"; fi
  find . \\( -path ./.cache -o -path './.sparkwright*' \\) -prune -o \\
    -type f -printf 'file\\t%s\\t%T@\\t%i\\t%P\\n' || exit 1
done"""

    def process(self, output: list[str]) -> dict[str, Folder]:
        """Return the folders by name."""
        try:
            return parse_folders(output)
        except ValueError as error:
            raise FactProcessError(f"unexpected line from the host: {error}") from error


class ImageState(FactBase[str]):
    """What Docker says of an image: "present", "absent", or why it cannot tell."""

    def command(self, references: Sequence[str]) -> str:
        """Return a command that exits 0 whatever Docker says; any of the names will do."""
        return f"docker image inspect --format present {shlex.join(references)} 2>&1 || true"

    def process(self, output: list[str]) -> str:
        """Tell Docker's "no" from no answer."""
        said = " ".join(filter(None, map(str.strip, output)))
        if "present" in output:
            return "present"
        return "absent" if "no such image" in said.lower() else said


class ImageContent(FactBase[str]):
    """What an image's file system is made of, whatever Docker's store calls the image."""

    default = str

    def command(self, image: str) -> str:
        """Return a command that prints the digests of its layers, nothing if there is none."""
        return (
            "docker image inspect --format '{{json .RootFS.Layers}}' "
            f"{shlex.quote(image)} 2>/dev/null || true"
        )

    def process(self, output: list[str]) -> str:
        """Return them as they are."""
        return "".join(output).strip()
