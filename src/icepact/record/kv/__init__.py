"""Record stores over a small compare-and-set interface: memory, Redis, etcd.

A backend knows keys, values, versions and transactions, and nothing of runs and jobs; `KvStore` knows those, and
nothing of backends. What is looked for has index keys that change with it in one transaction: no call reads all that
ever was.
"""
