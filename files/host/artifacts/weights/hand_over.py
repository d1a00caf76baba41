"""hand-over FOLDER OWNER: have FOLDER, with all in it, belong to the owner of the file OWNER.

So the user that fetches a checkpoint can write in its folder while it does, and nobody but root
afterwards. Only root runs it, while nobody else writes there. Files that other folders have too
(links, which verified checkpoints share) keep their owner, or who gets one folder could write in
another; and what is neither file nor folder goes: root follows no link that another has laid.
"""

import os
import stat
from pathlib import Path

from host.common.command_line import words


def hand_over(folder: Path, owner: Path) -> None:
    """Change the owner, by descriptors: no path is looked up twice."""
    like, previous = owner.stat(), folder.stat().st_uid
    for _, folders, files, here in os.fwalk(folder):
        os.fchown(here, like.st_uid, like.st_gid)
        for name in (*folders, *files):
            found = os.stat(name, dir_fd=here, follow_symlinks=False)
            # What the previous owner has made comes back, however many links to it he has laid.
            his = previous != 0 and found.st_uid == previous
            if stat.S_ISREG(found.st_mode) and (his or found.st_nlink == 1):
                os.chown(name, like.st_uid, like.st_gid, dir_fd=here, follow_symlinks=False)
            elif not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
                os.unlink(name, dir_fd=here)


def command() -> None:
    """Gives a folder another owner."""
    folder, owner = words(__doc__, "FOLDER", "OWNER")
    hand_over(Path(folder), Path(owner))
