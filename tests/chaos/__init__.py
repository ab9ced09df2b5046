"""Under fire: processes killed, writers in between, storage that fails. A short form runs with all tests, the long one
with `make chaos`; what it found is in `docs/reliability.md`."""
