"""The step that rewrites manifests and its result, as documents and for people."""

from icepact.model.documents import from_json, to_json
from icepact.model.housekeeping import Kept
from icepact.model.manifests import FieldRange, ManifestGroup, ManifestsResult, RewriteManifests

GROUP = ManifestGroup(
    content="data",
    spec_id=0,
    manifests_in=1000,
    manifests_out=3,
    left_alone=2,
    entries=100_000,
    bytes_in=20_000_000,
    bytes_out=15_000_000,
    reason="1,000 of them are small",
)
STEP = RewriteManifests(
    branch="main",
    snapshot_id=7,
    target_bytes=8_388_608,
    least=4,
    groups=(GROUP,),
    reason="sorted by partition",
    kept=(Kept(what="1 delete manifest of spec 0", why="there is only one"),),
)


def test_a_step_survives_as_a_document() -> None:
    assert from_json(RewriteManifests, to_json(STEP)) == STEP
    document = STEP.to_dict()
    assert (document["kind"], document["manifests_in"], document["manifests_out"]) == ("rewrite-manifests", 1000, 3)


def test_a_step_explains_itself() -> None:
    assert STEP.explain(None) == [
        "rewrite 1,000 manifests (19.1 MB) as about 3: sorted by partition",
        "  1,000 data manifests of spec 0 become 3 (100,000 files, 19.1 MB, 2 stay): 1,000 of them are small",
        "  stays: 1 delete manifest of spec 0: there is only one",
    ]
    assert STEP.explain(0)[1:] == [
        "  and 1 more kind of manifests; --all lists them",
        "  and 1 more that stay; --all lists them",
    ]


def test_a_result_survives_as_a_document_and_has_lines() -> None:
    result = ManifestsResult(groups=(GROUP,), snapshot_id=8, attempts=1, seconds=2.0)
    assert from_json(ManifestsResult, to_json(result)) == result
    assert result.lines()[0] == "manifests: 1,000 became 3 in 2.0 s (snapshot 8)"
    nothing = ManifestsResult(reason="none has come since they were rewritten")
    assert nothing.lines() == ["manifests: nothing was rewritten: none has come since they were rewritten"]


def test_a_range_is_single_if_it_has_one_value() -> None:
    assert FieldRange(3, 3, False).single
    assert FieldRange(1, 0, True).single
    assert not FieldRange(3, 3, True).single
    assert not FieldRange(3, 4, False).single
