"""What every test may ask for."""

from pathlib import Path

import pytest
from hypothesis import settings

# No test asserts a time, and a random one fails again in the same way.
settings.register_profile("elman", deadline=None, derandomize=True)
settings.load_profile("elman")

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data beside the checkout; without it, tests that need it are skipped."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the folder of real data is not beside this checkout")
    return SHARED_DATA
