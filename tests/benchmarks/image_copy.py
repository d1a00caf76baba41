"""An image on its way from the head's Docker to the worker's, each of its steps by itself."""

import json
from collections.abc import Callable, Mapping

from tests.benchmarks.spark_pair import FILES, HEAD, ROOT, SHARE_PORT, Pair, filled, sudo
from tests.benchmarks.usage import Run, in_turn, judge, table

IMAGE, JOB = "copy-benchmark:latest", "benchmark"
EXPORT, MOVE, LOAD = "export: docker save, hashed", "transfer, hashed", "docker load"

_EXPORT = """
from pathlib import Path
from host.image import export
export.main(Path("{root}"), "{job}")
"""
_COPY = """
import json
from pathlib import Path
from host.common.progress import Progress
from host.image.copy import Copy
root = Path("{root}")
copy = Copy(json.loads((root / "manifests/image-copy.json").read_text()), root / "imports")
(root / "imports").mkdir(exist_ok=True)
with Progress(root / "jobs/image-copy.json", copy.measure) as progress:
    copy.fetch(progress)
    if {load}:
        copy.load(progress)
"""


class Images:
    """An image with one layer for each of a pair's files, and its steps to the worker.

    It is removed from both by `clean`.
    """

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        lines = ["FROM scratch", *(f"COPY {number}.bin /" for number in range(FILES))]
        build = f"DOCKER_BUILDKIT=0 docker build -q -t {IMAGE} -f - {ROOT}/model"
        sudo(pair.head, f"{build} >/dev/null 2>&1", "\n".join(lines))
        known = sudo(pair.head, f"docker image inspect -f '{{{{.Id}}}}' {IMAGE}").strip()
        source = f"http://{HEAD}:{SHARE_PORT}/images/{JOB}"
        orders = {"images": [IMAGE], "ids": [known], "source": source}
        self._order(f"image-export@{JOB}", {"image": IMAGE}, at_head=True)
        self._order("image-copy", orders)

    def clean(self) -> None:
        """Remove the image from both."""
        for spark in (self._pair.head, self._pair.worker):
            sudo(spark, f"docker rmi -f {IMAGE} >/dev/null 2>&1 || true")

    def export(self) -> Run:
        """Unpack it on the head."""
        sudo(self._pair.head, f"rm -rf {ROOT}/exports/*")
        text = filled(_EXPORT, job=JOB)
        return self._pair.timed("python3 -B -", text, at_head=True)

    def move(self) -> Run:
        """Copy what the head has exported."""
        sudo(self._pair.worker, f"rm -rf {ROOT}/imports")
        self._pair.warm(f"exports/{JOB}/blobs/sha256")
        return self._pair.timed("python3 -B -", filled(_COPY, load=False))

    def load(self) -> Run:
        """Give what was copied to the worker's Docker."""
        sudo(self._pair.worker, f"docker rmi -f {IMAGE} >/dev/null 2>&1 || true")
        return self._pair.timed("python3 -B -", filled(_COPY, load=True))

    def _order(self, job: str, orders: Mapping[str, object], *, at_head: bool = False) -> None:
        spark = self._pair.head if at_head else self._pair.worker
        sudo(spark, f"cat > {ROOT}/manifests/{job}.json", json.dumps(orders))


def image_table(
    pair: Pair, megabytes: float, limits: dict[str, Callable[[], Run]], slow: int
) -> None:
    """Measure an image's steps, and print the tables.

    Args:
        megabytes: of the image.
        limits: the link's way, then others, with as many bytes.
        slow: megabytes a second of a link for which the cores are enough.
    """
    images = Images(pair)
    try:
        steps = {EXPORT: images.export, MOVE: images.move, LOAD: images.load}
        rounds = in_turn(steps | limits)
        table(f"An image of {FILES} layers", megabytes, rounds)
        judge(rounds, MOVE, *limits)
        pair.shape(slow)
        link = next(iter(limits))
        rounds = in_turn({link: limits[link], MOVE: images.move})
        table(f"The same over a link of {slow} MB/s", megabytes, rounds)
        judge(rounds, MOVE, link)
    finally:
        pair.shape(None)
        images.clean()
