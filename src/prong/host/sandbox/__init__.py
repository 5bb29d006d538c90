"""Holds commands to what was promised: Landlock, filters and namespaces of Linux, Seatbelt."""

from prong.host.sandbox.profile import NONE, Ability, Concealed, Name, Profile

__all__ = ["NONE", "Ability", "Concealed", "Name", "Profile"]
