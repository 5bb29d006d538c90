"""Editors: the Agent Client Protocol, version 1, over standard input and output.

`serve` answers an editor's requests, `editor_session` is one session as an editor has it,
`event_update` makes updates of events, and `rpc` carries lines. See decision 040.
"""
