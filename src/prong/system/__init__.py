"""What differs between operating systems, one module for each kind of thing.

No other module asks which system this is, but for `prong.host.sandbox` and `prong.face.terminal`,
which are about one system each (`tests/law/test_system.py`). Both sides of every difference are
type-checked, each as on its own system. What calls Windows itself is in `windows_call` alone, so
that all the rest can be run where there is no Windows (`prong.testing.other_platform`).
"""
