"""Docker's configuration: merged, never replaced."""

import json

import pytest

from sparkwright.runtime.daemon_json import has_nvidia_runtime, merged, without_ours

OPTIONS = {"max-size": "50m", "max-file": "3"}


def test_what_is_there_stays():
    text = merged('{"insecure-registries": ["a:5000"], "log-opts": {"max-size": "1g"}}', OPTIONS)
    assert json.loads(text) == {
        "insecure-registries": ["a:5000"],
        "log-opts": {"max-size": "1g", "max-file": "3"},
    }


def test_the_second_time_nothing_changes():
    text = merged("", OPTIONS)
    assert merged(text, OPTIONS) == text


def test_a_log_driver_without_files_is_left_alone():
    text = '{"log-driver": "journald"}'
    assert merged(text, OPTIONS) == text


@pytest.mark.parametrize("text", ["{", "[]", '"x"'])
def test_what_docker_could_not_read_is_refused(text):
    with pytest.raises(ValueError, match=r"(?i)expect"):
        merged(text, OPTIONS)


def test_the_runtime_is_found():
    assert has_nvidia_runtime('{"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}')
    assert not has_nvidia_runtime("")


NVIDIA = {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}


@pytest.mark.parametrize(
    "previous",
    [
        "",
        "{}\n",
        '{"runtimes": {"nvidia": {}}, "max-concurrent-downloads": 4}',
        '{"log-opts": {"max-size": "1g"}}',
        '{"log-opts": {}, "runtimes": {}}',
        '{"log-driver": "journald"}',
    ],
)
def test_what_deploys_add_to_daemon_json_goes_again(previous):
    text = merged(previous, OPTIONS)
    with_runtime = json.loads(text or "{}")
    with_runtime.setdefault("runtimes", {}).setdefault("nvidia", NVIDIA["nvidia"])
    assert without_ours(json.dumps(with_runtime), previous, OPTIONS) == previous


def test_what_the_owner_changed_since_then_stays():
    now = {"log-opts": {"max-size": "9m", "max-file": "3"}, "mtu": 1400, "runtimes": NVIDIA}
    assert json.loads(without_ours(json.dumps(now), "", OPTIONS)) == {
        "log-opts": {"max-size": "9m"},
        "mtu": 1400,
    }
