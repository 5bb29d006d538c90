"""For tests that need a real sshd."""

from __future__ import annotations

import pytest

from prong.testing.ssh_host import HAS_SSH

needs_sshd = pytest.mark.skipif(not HAS_SSH, reason="there is no sshd here: openssh-server")
