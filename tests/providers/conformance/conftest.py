import pytest

from tests.kit.wires.families import FAMILIES, Family


@pytest.fixture(params=FAMILIES, ids=str)
def family(request: pytest.FixtureRequest) -> Family:
    """Every test with this argument runs for each provider."""
    found: Family = request.param
    return found
