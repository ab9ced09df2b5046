"""File statistics as columns of numbers: manifests, deletes and where they apply, totals by partition.

Nothing here reads a manifest, knows a policy or decides anything; what `iceberg` reads is handed in.
"""
