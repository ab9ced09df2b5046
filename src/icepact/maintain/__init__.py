"""The order of things: pin -> assess -> plan -> execute -> prove -> commit -> record, and back after a crash.

Only this room knows all stages. What is done is decided in the plan, what may be committed in the commit protocol, and
what is known about a run is in the record store. Decided here is only what is not begun: groups that failed before,
and tables that are stopped or paused.
"""
