"""Java that spends little: for thousands of queries on a few rows each, most of its work is no use to a test."""

from pathlib import Path

from pyspark.sql import SparkSession

from tests.support.java import jvm

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


def without_processes(spark: SparkSession) -> None:
    """Let Java write local files by itself; Hadoop starts `chmod` for each of them, and `ls` for each that it lists."""
    java = jvm(spark)
    compiler = java.org.codehaus.janino.SimpleCompiler()
    compiler.cook(Path(__file__).with_name("LocalFiles.java").read_text())
    conf = java.org.apache.hadoop.conf.Configuration(spark._jsparkSession.sparkContext().hadoopConfiguration())
    conf.setClassLoader(compiler.getClassLoader())
    conf.set("fs.file.impl", "frugal.LocalFiles")
    files, root = java.org.apache.hadoop.fs.FileSystem, java.java.net.URI("file:///")
    files.get(root, conf).close()  # whoever asks next has the one of this configuration, whatever their own says
    files.get(root, conf)
