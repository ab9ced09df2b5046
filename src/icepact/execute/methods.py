"""The rewriter of each method."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from icepact.execute.rewriters.assemble import AssembleRewriter
from icepact.execute.rewriters.base import OnUnitDone, Rewriter
from icepact.execute.rewriters.spark import SparkRewriter
from icepact.iceberg.table.staging import Staging
from icepact.model.methods import Method
from icepact.model.plan import Plan

MakeRewriter: TypeAlias = Callable[[Staging, Plan, OnUnitDone], Rewriter]

REWRITERS: Mapping[Method, MakeRewriter] = {
    Method.ASSEMBLE: AssembleRewriter,
    Method.SPARK: lambda staging, _plan, _on_unit_done: SparkRewriter(staging),
}
