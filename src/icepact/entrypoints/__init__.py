"""The doors: library, command line. Each turns a request into calls of the application and shows what comes back.

Nothing is decided here. `wiring` is the only place where parts are put together.
"""
