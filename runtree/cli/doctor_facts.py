"""What `runtree doctor` looks at: every look is bounded in time, and none of them starts anything."""

import importlib.util
import os
import socket
from typing import TYPE_CHECKING, Final

from ..messages.diagnosis import Facts
from ..messages.errors import AddressError, ConfigurationError, RuntreeError
from .connection import observe

if TYPE_CHECKING:
    from ..messages.overview import SupervisorInfo

HEAD_PORT: Final = 6379
"""Where `ray start --head` listens if nothing else is said."""


async def gather(namespace: str, address: str | None) -> Facts:
    """Return what can be seen from here."""
    from ..actors import nodes

    wished = address or os.environ.get("RAY_ADDRESS") or None
    facts = Facts(
        namespace=namespace,
        here=nodes.here(),
        wished_address=None if wished == "auto" else wished,
        keys=_keys(),
        extras=_extras(),
    )
    try:
        async with observe(namespace, address) as observer:
            ray = await nodes.ray_info()
            supervisor: SupervisorInfo | None = None
            problem = None
            try:
                supervisor = await observer.describe()
            except RuntreeError as error:
                problem = str(error)
            return facts.model_copy(update={"ray": ray, "supervisor": supervisor, "supervisor_problem": problem})
    except AddressError as error:
        return facts.model_copy(update={"ray_problem": str(error), "port_taken": _listens(HEAD_PORT)})


def _keys() -> dict[str, bool]:
    """Return the names of the keys that model strings ask for, and whether the environment has them."""
    from ..providers.protocol import NeedsSecrets
    from ..providers.registry import registered, resolve

    found: dict[str, bool] = {}
    for prefix in registered():
        try:
            model = resolve(f"{prefix}:any")
        except ConfigurationError:
            continue  # it wants an address, or its package is not installed
        if isinstance(model, NeedsSecrets):
            found.update({name: bool(os.environ.get(name, "").strip()) for name in model.secret_names})
    return dict(sorted(found.items()))


def _extras() -> dict[str, bool]:
    """Return the optional parts, and whether they are here."""
    from ..providers.local import weights

    return {
        "xllamacpp (server of local models)": importlib.util.find_spec("xllamacpp") is not None,
        **{f"weights of {name}": weights.find(name) is not None for name in sorted(weights.KNOWN)},
    }


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
