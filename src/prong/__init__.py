"""Prong: parallel coding agents whose forks come with a receipt."""

__version__ = "0.1.0"
