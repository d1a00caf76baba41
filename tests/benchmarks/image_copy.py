"""An image from the head's Docker to the worker's."""

import json
from collections.abc import Callable

from tests.benchmarks.spark_pair import FILES, HEAD, ROOT, Pair, filled, sudo
from tests.benchmarks.usage import Run, in_turn, table

IMAGE, PORT = "copy-benchmark:latest", 29514
COPY = "docker save, hashed, docker load"

_OFFER = """
import socket, subprocess
server = socket.create_server(("{head}", {image_port}))
while True:
    connection, _ = server.accept()
    with connection:
        subprocess.run(["docker", "save", "{image}"], stdout=connection)
"""
_COPY = """
from pathlib import Path
from host.image import copy
copy.main(Path("{root}"))
"""


class Image:
    """An image with one layer for each of a pair's files; `clean` removes it from both."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        lines = ["FROM scratch", *(f"COPY {number}.bin /" for number in range(FILES))]
        build = f"DOCKER_BUILDKIT=0 docker build -q -t {IMAGE} -f - {ROOT}/model"
        sudo(pair.head, f"{build} >/dev/null 2>&1", "\n".join(lines))
        known = sudo(pair.head, f"docker image inspect -f '{{{{.Id}}}}' {IMAGE}").strip()
        sudo(pair.head, f"cat > {ROOT}/image.py", filled(_OFFER, image_port=PORT, image=known))
        unit = "--quiet --unit copy-benchmark-image"
        sudo(pair.head, f"systemd-run {unit} python3 -B {ROOT}/image.py")
        orders = {"images": [IMAGE], "ids": [known], "source": [HEAD, PORT], "size": 0}
        sudo(pair.worker, f"cat > {ROOT}/manifests/image-copy.json", json.dumps(orders))

    def clean(self) -> None:
        """Remove the image from both."""
        for spark in (self._pair.head, self._pair.worker):
            sudo(spark, f"docker rmi -f {IMAGE} >/dev/null 2>&1 || true")

    def copy(self) -> Run:
        """Copy it to a worker that has nothing of it."""
        sudo(self._pair.worker, f"docker rmi -f {IMAGE} >/dev/null 2>&1 || true")
        return self._pair.timed("python3 -B -", filled(_COPY))


def image_table(pair: Pair, megabytes: float, limits: dict[str, Callable[[], Run]]) -> None:
    """Measure the copy of an image beside the limits of link and disk, and print the table."""
    image = Image(pair)
    try:
        rounds = in_turn({COPY: image.copy} | limits)
        table(f"An image of {FILES} layers", megabytes, rounds)
    finally:
        image.clean()
