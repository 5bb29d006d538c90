"""Draws a view as rows of styled text.

Pure: nothing here knows a terminal, a clock or a widget. What shows rows brings the width, the time
and what is unfolded, and gets rows that are never wider than it asked for.
"""
