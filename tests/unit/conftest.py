"""Property tests give the same answer for the same commit; `HYPOTHESIS_PROFILE=explore` looks further."""

import os

from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("steady", derandomize=True, database=None, deadline=None, suppress_health_check=_SLOW)
settings.register_profile(
    "explore", derandomize=False, database=None, deadline=None, max_examples=3000, suppress_health_check=_SLOW
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
