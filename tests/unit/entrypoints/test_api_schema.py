"""Schemathesis over the whole OpenAPI document: whatever is asked, no answer is a failure of the service, and every
answer is as it is documented."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from icepact.entrypoints.api.application import openapi_document
from icepact.model.tenant import Role
from icepact.schedule.tenants import Tenants
from tests.support.api import ROOMY, Served, as_json, served

_CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
_TOO_LARGE = 413
"""A refusal, too, of which schemathesis does not know."""
_LIMITS = replace(ROOMY, most_wait=1.0, stream_seconds=1.0)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Somebody ends its jobs."""
    with served(tmp_path_factory.mktemp("schema"), _LIMITS) as found, found.working():
        yield found


@pytest.fixture(scope="module")
def secret(api: Served) -> str:
    """Of an admin of everything, so that nothing that is asked closes the door."""
    tenants = Tenants(api.service.store, catalog=api.service.catalog.name)
    tenants.create("default", tables=["*"])
    return tenants.new_key("default", Role.ADMIN)[1]


@pytest.fixture(scope="module")
def known(api: Served, secret: str) -> dict[str, str]:
    """Path parameters of what there is."""
    with api.http(secret) as http:
        plain = {"table": "db.events"}
        job = as_json(http.post("/api/v1/compact?wait=1s", json=plain), 200)
        as_json(http.get("/api/v1/tables/db.events/health"), 200)
        key = as_json(http.post("/api/v1/keys", json={"role": "viewer"}), 201)
        as_json(http.post("/api/v1/tenants", json={"name": "red", "tables": ["red.*"]}), 201)
    return {**plain, "job_id": job["job_id"], "key_id": key["key"]["key_id"], "name": "red", "plan_id": job["job_id"]}


def ask_everything(api: Served, secret: str, mode: GenerationMode, known: dict[str, str], examples: int) -> int:
    """Ask so often for each operation; returns how many operations there are."""
    schema = schemathesis.openapi.from_dict(openapi_document())
    checks = [*_CHECKS, *([negative_data_rejection] if mode is GenerationMode.NEGATIVE else [])]
    headers, count = {"Authorization": f"Bearer {secret}"}, 0
    with requests.Session() as session:
        session.trust_env = False
        for result in schema.get_all_operations():
            assert isinstance(result, Ok), result
            operation = result.ok()
            parameters = {name: value for name, value in known.items() if f"{{{name}}}" in operation.path}
            if known and not parameters:
                continue
            strategy = operation.as_strategy(mode, path_parameters=parameters or None, headers=headers)

            @settings(
                max_examples=examples,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
                database=None,
                deadline=None,
            )
            @given(case=strategy)
            def ask(case: Any) -> None:
                response = case.call(base_url=api.url, session=session, headers=headers, timeout=20)
                case.validate_response(response, checks=_CHECKS if response.status_code == _TOO_LARGE else checks)

            with suppress(Unsatisfiable):  # where nothing can be wrong
                ask()
                count += 1
    return count


def test_whatever_is_right_is_answered_as_documented(api: Served, secret: str) -> None:
    assert ask_everything(api, secret, GenerationMode.POSITIVE, {}, 2) > 40


def test_what_there_is_is_answered_as_documented(api: Served, secret: str, known: dict[str, str]) -> None:
    assert ask_everything(api, secret, GenerationMode.POSITIVE, known, 2) > 20


def test_whatever_is_wrong_is_refused_as_documented(api: Served, secret: str) -> None:
    assert ask_everything(api, secret, GenerationMode.NEGATIVE, {}, 2) > 30


@pytest.mark.matrix
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_the_long_form(api: Served, secret: str, mode: GenerationMode) -> None:
    assert ask_everything(api, secret, mode, {}, 100) > 30
