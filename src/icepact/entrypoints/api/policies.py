"""Policies: those in force, others in their stead, and whether a file is one."""

from typing import Annotated

from fastapi import APIRouter, Header, Response

from icepact.entrypoints.api.answering import json_answer
from icepact.entrypoints.api.bodies import PutPoliciesBody
from icepact.entrypoints.api.callers import Admin, Asked, Viewer
from icepact.entrypoints.api.routes import WholeText
from icepact.iceberg.names import parse_levels
from icepact.model.answers import PolicyDocument
from icepact.model.documents import document_of
from icepact.model.errors import Conflict
from icepact.policy.layers import Policies, unmatched
from icepact.schedule.answers import known_tables
from icepact.schedule.put_policies import (
    InForce,
    check_policies,
    drop_policies,
    in_force,
    policies_document,
    put_policies,
)

router = APIRouter(route_class=WholeText, prefix="/policies", tags=["policies"])
IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        pattern=r'^"[0-9]{1,18}"$',
        description="The ETag of the policies that were seen: 409 if others are in force by now.",
    ),
]


@router.get("", summary="The policies in force.", response_model=PolicyDocument)
def get_policies(asked: Viewer) -> Response:
    """The policies in force, as they were put or as the configuration has them."""
    asked.need_all()
    service = asked.context.service
    return _answer(asked, in_force(service.store, service.catalog.recorded_as, service.policies))


@router.put("", summary="Put policies in force.", response_model=PolicyDocument)
def put(asked: Admin, body: PutPoliciesBody, if_match: IfMatch = None) -> Response:
    """Put the text of a policy file in force, in the place of the file that the configuration names. Each job that
    begins from now on goes by it."""
    asked.need_all()
    service = asked.context.service
    by = asked.caller.key_id or "local"
    version = None if if_match is None else int(if_match.strip('"'))
    with asked.audited("policies.put", service.catalog.name):
        done = put_policies(
            service.store, service.catalog.recorded_as, service.policies, body.text, by=by, version=version
        )
    return _answer(asked, done)


@router.delete("", summary="Go back to the configuration.", response_model=PolicyDocument)
def drop(asked: Admin, if_match: IfMatch = None) -> Response:
    """Drop what was put: the policies of the configuration are in force again. 409 if nothing was put."""
    asked.need_all()
    service = asked.context.service
    version = None if if_match is None else int(if_match.strip('"'))
    with asked.audited("policies.drop", service.catalog.name):
        if not drop_policies(service.store, service.catalog.recorded_as, version=version):
            raise Conflict("no policies were put: those of the configuration are in force")
    return _answer(asked, InForce(policies=service.policies))


@router.post("/check", summary="Check a policy file.", response_model=PolicyDocument)
def check(asked: Viewer, body: PutPoliciesBody) -> Response:
    """Whether a text is a policy file, and what it says. Nothing is changed."""
    found = check_policies(body.text, asked.context.service.policies)
    return _answer(asked, InForce(policies=found, text=body.text))


def _answer(asked: Asked, found: InForce) -> Response:
    document = PolicyDocument(
        source="configuration" if found.text is None else "api",
        version=found.version,
        changed_at=found.changed_at,
        text=found.text,
        warnings=_warnings(asked, found.policies),
        **policies_document(found.policies),
    )
    return json_answer(document_of(document), headers={"ETag": f'"{found.version}"'})


def _warnings(asked: Asked, policies: Policies) -> list[str]:
    """Rules that match no table, as far as the tables are known to whoever asks."""
    service = asked.context.service
    known = known_tables(service.store, service.catalog.recorded_as)
    if known is None:
        return []
    names = [parse_levels(name) for name in known[0] if asked.caller.sees(name)]
    idle = unmatched(policies, service.catalog.name, names)
    return [f"{rule.source}: {rule.pattern.text} matches no table" for rule in idle]
