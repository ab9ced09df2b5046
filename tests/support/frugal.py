"""Java that spends little: for thousands of queries on a few rows each, most of its work is no use to a test."""

JAVA_OPTIONS = " ".join(
    [
        "-XX:TieredStopAtLevel=1",  # the second compiler would take half of the time for queries asked once
        "-XX:+UseSerialGC",
        "-XX:InitialRAMPercentage=4",  # what a query leaves behind is gone by the next: fewer collections do the same
        "-XX:NewRatio=1",
        "-XX:ReservedCodeCacheSize=256m",  # with one compiler there are 48 MB, and what is thrown out is compiled again
        "-Dspark.sql.codegen.wholeStage=false",  # each query would be compiled, for a few rows
        "-Dspark.sql.codegen.factoryMode=NO_CODEGEN",
        "-Dspark.sql.shuffle.partitions=2",
        "-Dspark.sql.ui.explainMode=simple",  # a plan is spelled out for every query, and nobody looks at it
    ]
)
"""For `JDK_JAVA_OPTIONS`, which every Java takes that a test starts, whoever starts it."""
