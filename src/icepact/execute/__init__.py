"""Plan steps in, new files out, on Spark. Nothing is committed here, and nothing is planned again."""
