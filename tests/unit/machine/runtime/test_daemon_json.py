"""Docker's configuration: merged, never replaced."""

import json

import pytest

from host.upkeep.cleanup.system import without_ours
from sparkwright.machine.runtime.daemon_json import (
    has_nvidia_runtime,
    merged,
    new_record,
    proxies,
    recorded,
)

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


OURS = {"log-opts": OPTIONS, "runtimes": {"nvidia": None}}
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
    assert without_ours(json.dumps(with_runtime), previous, OURS) in (previous, None)


PROXIES = proxies({"http_proxy": "http://p:1", "https_proxy": "http://p:1", "no_proxy": "a,b"})
OTHERS = {"http-proxy": "http://mine:2"}


def test_the_proxy_comes_changes_and_goes():
    first = merged("", OPTIONS, PROXIES)
    assert json.loads(first)["proxies"] == {
        "http-proxy": "http://p:1",
        "https-proxy": "http://p:1",
        "no-proxy": "a,b",
    }
    line = new_record("", first, ())
    assert line == recorded(PROXIES)
    assert merged(first, OPTIONS, PROXIES, [line]) == first
    second = merged(first, OPTIONS, OTHERS, [line])
    assert json.loads(second)["proxies"] == OTHERS
    lines = [line, new_record(first, second, [line])]
    # A run that was cut off before it wrote the file has written the record.
    for text in (first, second):
        assert json.loads(merged(text, OPTIONS, {}, lines)) == {"log-opts": OPTIONS}


def test_proxies_of_the_owner_stay():
    own = json.dumps({"log-opts": OPTIONS, "proxies": OTHERS})
    line = recorded(PROXIES)
    for wanted in (PROXIES, {}):
        assert merged(own, OPTIONS, wanted, [line]) == own
    assert new_record(own, own, ()) is None
    assert without_ours(own, "", {"proxies": PROXIES}) is None


def test_proxies_that_are_as_they_should_be_are_no_record_of_ours():
    own = json.dumps({"log-opts": OPTIONS, "proxies": PROXIES})
    assert merged(own, OPTIONS, PROXIES) == own
    assert new_record(own, own, ()) is None
    assert merged(own, OPTIONS) == own
