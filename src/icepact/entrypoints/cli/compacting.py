"""What somebody at the terminal sees of a compaction: what is looked for, the plan and the question, then a bar."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from icepact.entrypoints.cli.asking import ask
from icepact.entrypoints.cli.render import BarProgress, Renderer, shown_option
from icepact.model.job import JobProgress
from icepact.model.outcome import Outcome
from icepact.model.plan import Plan
from icepact.model.progress import UnitDone


class Compacting:
    """Shows one stage of a compaction after the other, asks, and is the progress of its run."""

    def __init__(self, renderer: Renderer, table: str, *, yes: bool) -> None:
        self._renderer = renderer
        self._table = table
        self.asks = renderer.interactive and not yes
        """Whether the plan is shown before anything is done."""
        self._shown = ExitStack()
        self._bar: BarProgress | None = None

    def __enter__(self) -> "Compacting":
        self._shown.enter_context(self._renderer.working(f"looking for unfinished runs on {self._table}"))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._shown.__exit__(kind, error, at)

    def on_resumed(self, resumed: Outcome | None) -> None:
        """Say that a run was carried on with, if one was; the table is planned next."""
        self._shown.close()
        if resumed is not None:
            self._renderer.note(f"resumed run {resumed.run_id}: {resumed.status}{_kept(resumed)}")
        self._shown.enter_context(self._renderer.working(f"planning {self._table}"))

    def confirm(self, plan: Plan) -> bool:
        """Show the plan and ask, if there is somebody to be asked; a no ends the command."""
        self._shown.close()
        if plan.policy.off is not None:
            self._renderer.note(plan.policy.off)
        if plan.steps and self.asks:
            self._renderer.plan(plan)
            ask()
        self._bar = self._shown.enter_context(self._renderer.progress(plan))
        return True

    def show(self, file: Path | None) -> Callable[[Plan], bool]:
        """How the plan of a dry run is shown, and written into a file if there is one."""

        def shown(plan: Plan) -> bool:
            self._shown.close()
            if file is not None:
                from icepact.entrypoints.plan_files import save_plan

                save_plan(plan, file)
            if not self._renderer.as_json:
                self._renderer.plan(plan)
            return True

        return shown

    def advance(self, done: UnitDone) -> None:
        """Move the bar; a run that is carried on with has none."""
        if self._bar is not None:
            self._bar.advance(done)

    def follow(self, progress: JobProgress) -> None:
        """Show how far a job elsewhere is; if its plan was not seen here, by the units that it says."""
        if self._bar is None and progress.planned_units:
            self._shown.close()
            self._bar = self._shown.enter_context(self._renderer.following(progress.planned_units))
        if self._bar is not None:
            self._bar.follow(progress)

    def step(self, name: str) -> None:
        """Tell the bar."""
        if self._bar is not None:
            self._bar.step(name)


def _kept(resumed: Outcome) -> str:
    """Which options a run was carried on with although others are asked for now."""
    kept = ", ".join(
        f"{name.replace('_', '-')} {shown_option(name, value)}" for name, value in resumed.kept_options.items()
    )
    return f"; with options that it began with, not those of now: {kept}" if kept else ""
