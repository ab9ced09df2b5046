"""The session that both sides are measured in: Java compiles as it does by default, not as ours do for quick starts."""

from pathlib import Path

from icepact import Compactor

_JAVA_DEFAULTS = (
    "-XX:Tier4InvocationThreshold=5000",
    "-XX:Tier4MinInvocationThreshold=600",
    "-XX:Tier4CompileThreshold=15000",
    "-XX:Tier4BackEdgeThreshold=40000",
)


def neutral_compactor(folder: Path | str, **conf: str) -> Compactor:
    """A compactor on an embedded catalog below a folder; `conf` are further settings of Spark's, with `_` for a dot."""
    config = Path(folder) / "icepact.yaml"
    settings = {"spark.driver.extraJavaOptions": " ".join(_JAVA_DEFAULTS)}
    settings |= {f"spark.{name.replace('_', '.')}": value for name, value in conf.items()}
    lines = "".join(f"    {name}: {value}\n" for name, value in settings.items())
    config.write_text(f"spark:\n  conf:\n{lines}")
    return Compactor(config=config, catalog="local", warehouse=Path(folder) / "warehouse")
