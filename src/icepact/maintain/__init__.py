"""The order of things: pin -> assess -> plan -> execute -> prove -> commit -> record, and back after a crash.

Only this room knows all stages. It decides nothing itself: what is done is in the plan, what may be committed in the
commit protocol, and what is known about a run in the record store.
"""
