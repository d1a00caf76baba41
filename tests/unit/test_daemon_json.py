"""Docker's configuration: merged, never replaced."""

import json

import pytest

from deploys.plan.daemon_json import has_nvidia_runtime, merged

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
