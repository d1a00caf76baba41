"""Downloads checkpoints by huggingface_hub, into the folder of a bundle."""

from __future__ import annotations

import shutil
from pathlib import Path

from huggingface_hub import constants, hf_hub_download
from huggingface_hub.errors import HTTPError

from sparkwright.common.errors import PlanError
from sparkwright.release.bundle import checkpoint_folder
from sparkwright.release.lock import CheckpointLock
from sparkwright.release.token import Hub

# With telemetry the library contacts the public hub, whatever the endpoint.
constants.HF_HUB_DISABLE_TELEMETRY = True


def download_weights(locked: CheckpointLock, hub: Hub, folder: Path) -> None:
    """Have the files of a checkpoint in a bundle; those that are there are not fetched again.

    Raises:
        PlanError: One cannot be had. Whether it is the right one, the bundle's index will show.
    """
    place = folder / checkpoint_folder(locked)
    for path, file in locked.files.items():
        if (place / path).is_file() and (place / path).stat().st_size == file.size:
            continue
        try:
            hf_hub_download(
                locked.repo,
                path,
                revision=locked.commit,
                local_dir=place,
                endpoint=hub.endpoint,
                token=hub.token() or False,
            )
        except (HTTPError, OSError) as error:
            where = f"{locked.repo}@{locked.commit[:12]}: {path}"
            raise PlanError(f"{where}: cannot be fetched ({error}); run again") from None
    # The library's notes of what is on its way.
    shutil.rmtree(place / ".cache", ignore_errors=True)
