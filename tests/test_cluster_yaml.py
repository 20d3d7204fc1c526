"""cluster.yaml is what `ray up` accepts, and lets nobody in but by SSH."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

CLUSTER = Path(__file__).resolve().parent.parent / "cluster.yaml"
STARTS = ("head_start_ray_commands", "worker_start_ray_commands")


@pytest.fixture
def config() -> dict[str, Any]:
    """The file as `ray up` sees it: with Ray's defaults filled in, and before it asks the cloud anything."""
    loaded: dict[str, Any] = yaml.safe_load(CLUSTER.read_text())
    return prepare_config(loaded)


def _ray_start(config: dict[str, Any], key: str) -> str:
    [command] = [command for command in config[key] if "ray start" in command]
    return str(command)


def test_ray_accepts_it(config: dict[str, Any]) -> None:
    validate_config(config)


def test_one_head_and_workers_that_come_and_go(config: dict[str, Any]) -> None:
    head = config["available_node_types"][config["head_node_type"]]
    [worker] = [kind for name, kind in config["available_node_types"].items() if name != config["head_node_type"]]
    assert head["max_workers"] == 0
    assert worker["min_workers"] == 0 < worker["max_workers"] <= config["max_workers"]
    assert config["idle_timeout_minutes"] > 0
    assert "--autoscaling-config=~/ray_bootstrap_config.yaml" in _ray_start(config, STARTS[0])


@pytest.mark.parametrize("key", STARTS)
def test_every_node_asks_for_the_token(config: dict[str, Any], key: str) -> None:
    assert "RAY_AUTH_MODE=token" in _ray_start(config, key)
    assert config["file_mounts"]["/home/ubuntu/.ray/auth_token"] == "~/.ray/auth_token"
    assert config["auth"]["ssh_user"] == "ubuntu", "the mounts are in this user's home"


def test_no_token_is_written_down() -> None:
    assert not re.search(r"RAY_AUTH_TOKEN=|\b[0-9a-f]{32,}\b", CLUSTER.read_text())


def test_no_port_is_open_beyond_ssh(config: dict[str, Any]) -> None:
    rules = config["provider"]["security_group"].get("IpPermissions", [])
    assert all(rule["FromPort"] == rule["ToPort"] == 22 for rule in rules)
    assert not [kind for kind in config["available_node_types"].values() if "SecurityGroupIds" in kind["node_config"]]
    assert "--dashboard-host=127.0.0.1" in _ray_start(config, STARTS[0])
    assert "0.0.0.0" not in CLUSTER.read_text()


@pytest.mark.parametrize("key", ["head_setup_commands", "worker_setup_commands"])
def test_every_node_installs_the_mounted_wheel(config: dict[str, Any], key: str) -> None:
    assert config["file_mounts"]["/home/ubuntu/runtree-wheel"] == "./dist"
    assert any("runtree-wheel/*.whl" in command for command in config[key])
