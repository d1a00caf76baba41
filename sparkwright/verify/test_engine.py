"""The engine: the bits that were declared, and answers to what clients ask."""

import json
import shlex
from typing import Any

import pytest
from testinfra.host import Host

from sparkwright.plan.release.container import CONTAINER_OPTIONS, image_id
from sparkwright.plan.release.lock import Lock
from sparkwright.plan.release.release import Release
from sparkwright.run.spark import SparkTarget
from sparkwright.verify.plugin import Api, Proved


def chat(release: Release, **options: object) -> dict[str, object]:
    """Return the body of a short chat request that does not think."""
    return {
        "model": release.recipe.served_names[0],
        "messages": [{"role": "user", "content": "Say hello."}],
        "max_tokens": 8,
        "temperature": 0,
        "chat_template_kwargs": {"enable_thinking": False},
        **options,
    }


def chunks(answer: str) -> list[dict[str, Any]]:
    """Return the chunks of a streamed answer, which must be whole."""
    lines = [line.removeprefix("data: ") for line in answer.splitlines() if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_weights(
    host: Host, target: SparkTarget, release: Release, lock: Lock, proved: Proved
) -> None:
    """Every file of every checkpoint is there in full; the smaller ones are hashed as well."""
    for name, checkpoint in release.recipe.checkpoints.items():
        locked = lock.checkpoint(checkpoint)
        assert locked
        folder = f"{target.root}/{release.folders[name]}"
        listed = host.check_output(f"find {folder} -type f -printf '%P %s\\n'")
        sizes = dict(line.rsplit(" ", 1) for line in listed.splitlines())
        for path, file in locked.files.items():
            assert int(sizes.get(path, -1)) == file.size, f"{folder}/{path}"
        small = [path for path, file in locked.files.items() if file.size < 64 * 1024**2]
        for path in small:
            file = locked.files[path]
            if file.sha256:
                assert host.file(f"{folder}/{path}").sha256sum == file.sha256, path
            else:
                # As git hashes a file.
                blob = f"(printf 'blob {file.size}\\0'; cat %s) | sha1sum"
                assert host.check_output(blob, f"{folder}/{path}").split()[0] == file.git, path
        proved(
            f"{checkpoint.folder}: {len(locked.files)} files, {locked.size:,} bytes of "
            f"{checkpoint.repo} at {locked.commit[:12]}, {len(small)} of them hashed now"
        )


def test_unit(
    host: Host, target: SparkTarget, release: Release, lock: Lock, proved: Proved
) -> None:
    service = host.service(f"vllm@{release.id}")
    assert service.is_running
    # The worker of a pair boots always, and waits for its head.
    boots = not target.on_demand or target.rank != 0
    assert service.is_enabled is boots
    listed = "systemctl list-units --plain --no-legend --state=active 'vllm@*'"
    running = set(host.check_output(f"{listed} | cut -d' ' -f1").split())
    seats = {
        f"vllm@{each.id}.service": seat for seat in target.seats if (each := seat.release_by(lock))
    }
    assert {unit for unit, seat in seats.items() if not seat.on_demand} <= running <= seats.keys()
    alone = "the only engine" if len(seats) == 1 else "beside those of other replicas alone"
    started = "enabled" if boots else "started by requests"
    proved(f"vllm@{release.id} is active, {started}, and {alone}")


def test_release_is_what_was_declared(
    host: Host, target: SparkTarget, release: Release, proved: Proved
) -> None:
    folder = f"{target.root}/releases/{release.id}"
    assert host.file(f"{target.place}/current").linked_to == folder
    for name, text in release.files.items():
        assert host.file(f"{folder}/{name}").content_string == text, name
    container = host.docker(f"vllm-{release.id}")
    assert container.is_running
    assert container.inspect()["Image"] == host.check_output(image_id(release.images))
    proved(f"the container runs {release.image}")


def test_gpu_in_container(host: Host, release: Release, proved: Proved) -> None:
    user = release.place.user
    gpus = host.check_output(
        f"docker run --rm --pull never {shlex.join(CONTAINER_OPTIONS)} --network none "
        f"--user $(id -u {user}):$(id -g {user}) "
        f'--entrypoint nvidia-smi "$({image_id(release.images)})" --list-gpus'
    )
    assert "NVIDIA" in gpus
    proved(f"a container sees {gpus.split(' (')[0]}")


def test_served_names(api: Api, release: Release, proved: Proved) -> None:
    models = {entry["id"] for entry in json.loads(api("/v1/models"))["data"]}
    assert models >= set(release.recipe.models)
    proved(f"served names: {', '.join(release.recipe.models)}")


@pytest.mark.usefixtures("chats")
def test_chat(api: Api, release: Release, proved: Proved) -> None:
    answer = json.loads(api("/v1/chat/completions", chat(release)))
    tokens = answer["usage"]["completion_tokens"]
    assert tokens >= 1
    text = answer["choices"][0]["message"]["content"]
    proved(f"chat: {tokens} tokens: {text!r}")


@pytest.mark.usefixtures("chats")
def test_thinking(api: Api, target: SparkTarget, release: Release, proved: Proved) -> None:
    """Thoughts come apart from the answer, and leave room for one: `content` is not null."""
    if "reasoning-parser" not in release.recipe.args:
        pytest.skip(f"recipe {release.recipe.name} names no reasoning-parser")

    def ask(thinking: bool) -> tuple[str | None, str | None]:
        body = chat(release, max_tokens=room, chat_template_kwargs={"enable_thinking": thinking})
        (choice,) = json.loads(api("/v1/chat/completions", body, timeout=600))["choices"]
        message = choice["message"]
        # The second is the name that older releases of vLLM gave it.
        return message.get("reasoning") or message.get("reasoning_content"), message["content"]

    # The random model of a lab thinks for as long as it may.
    lab = target.hardware_class == "lab"
    room = 16 if lab else 4096
    thoughts, answer = ask(thinking=True)
    assert thoughts
    assert answer or lab, "it thought for 4096 tokens, and then said nothing"
    without, direct = ask(thinking=False)
    assert not without
    assert direct
    proved(f"thinking: {len(thoughts)} characters of thought apart from the answer; off: none")
