"""The REST API: HTTP over the record store, the queue and the tenants.

Nothing here opens a catalog or starts Java: what needs a table is a job that a worker carries out. Every answer that is
no success is a problem as RFC 9457 has it.
"""
