"""The C structures of one exact release of the engine, and the check that they are right.

Structures are passed by value, so a field that moved would not raise: it would crash the process or
quietly change a parameter. The check therefore compares the release's own default values, field by
field, before anything is loaded. What is unknown in this release is kept as it came.
"""

from __future__ import annotations

import ctypes
from typing import Any

RELEASE = "2026.10.11549"
"""The release of xllamacpp whose structures these are."""

Progress = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_float, ctypes.c_void_p)
"""Called while a model is loaded; the load goes on for as long as it gives true."""
Log = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
"""Called with every line that the engine writes."""


class ModelParams(ctypes.Structure):
    """How a model is loaded."""

    _fields_ = (
        ("devices", ctypes.c_void_p),
        ("tensor_overrides", ctypes.c_void_p),
        ("n_gpu_layers", ctypes.c_int32),
        ("split_mode", ctypes.c_int32),
        ("load_mode", ctypes.c_int32),
        ("unknown", ctypes.c_int32),
        ("main_gpu", ctypes.c_int32),
        ("tensor_split", ctypes.c_void_p),
        ("progress", Progress),
        ("progress_data", ctypes.c_void_p),
        ("kv_overrides", ctypes.c_void_p),
        ("vocab_only", ctypes.c_bool),
        ("check_tensors", ctypes.c_bool),
        ("use_extra_buffers", ctypes.c_bool),
        ("no_host", ctypes.c_bool),
        ("no_alloc", ctypes.c_bool),
        ("load_mtp", ctypes.c_bool),
    )


class ContextParams(ctypes.Structure):
    """How much a context holds and how it computes."""

    _fields_ = (
        ("n_ctx", ctypes.c_uint32),
        ("n_batch", ctypes.c_uint32),
        ("n_ubatch", ctypes.c_uint32),
        ("n_seq_max", ctypes.c_uint32),
        ("n_rs_seq", ctypes.c_uint32),
        ("n_outputs_max", ctypes.c_uint32),
        ("n_outputs_max_per_seq", ctypes.c_uint32),
        ("n_threads", ctypes.c_int32),
        ("n_threads_batch", ctypes.c_int32),
        ("ctx_type", ctypes.c_int32),
        ("rope_scaling_type", ctypes.c_int32),
        ("pooling_type", ctypes.c_int32),
        ("attention_type", ctypes.c_int32),
        ("flash_attn_type", ctypes.c_int32),
        ("rope_freq_base", ctypes.c_float),
        ("rope_freq_scale", ctypes.c_float),
        ("yarn_ext_factor", ctypes.c_float),
        ("yarn_attn_factor", ctypes.c_float),
        ("yarn_beta_fast", ctypes.c_float),
        ("yarn_beta_slow", ctypes.c_float),
        ("yarn_orig_ctx", ctypes.c_uint32),
        ("defrag_threshold", ctypes.c_float),
        ("eval_callback", ctypes.c_void_p),
        ("eval_data", ctypes.c_void_p),
        ("type_k", ctypes.c_int32),
        ("type_v", ctypes.c_int32),
        ("unknown", ctypes.c_void_p * 3),
        ("embeddings", ctypes.c_bool),
        ("offload_kqv", ctypes.c_bool),
        ("no_perf", ctypes.c_bool),
        ("op_offload", ctypes.c_bool),
        ("swa_full", ctypes.c_bool),
        ("kv_unified", ctypes.c_bool),
        ("samplers", ctypes.c_void_p),
        ("n_samplers", ctypes.c_size_t),
        ("other", ctypes.c_void_p),
    )


class Batch(ctypes.Structure):
    """The tokens of one step, each with its place and its sequence."""

    _fields_ = (
        ("n_tokens", ctypes.c_int32),
        ("token", ctypes.POINTER(ctypes.c_int32)),
        ("embd", ctypes.c_void_p),
        ("pos", ctypes.POINTER(ctypes.c_int32)),
        ("n_seq_id", ctypes.POINTER(ctypes.c_int32)),
        ("seq_id", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))),
        ("logits", ctypes.POINTER(ctypes.c_int8)),
    )


class Candidate(ctypes.Structure):
    """One token that may come next."""

    _fields_ = (
        ("id", ctypes.c_int32),
        ("logit", ctypes.c_float),
        ("p", ctypes.c_float),
    )


class Candidates(ctypes.Structure):
    """Tokens that may come next."""

    _fields_ = (
        ("data", ctypes.POINTER(Candidate)),
        ("size", ctypes.c_size_t),
        ("selected", ctypes.c_int64),
        ("sorted", ctypes.c_bool),
    )


class ChainParams(ctypes.Structure):
    """How a chain of samplers works."""

    _fields_ = (("no_perf", ctypes.c_bool),)


class ChatMessage(ctypes.Structure):
    """A message for a chat template."""

    _fields_ = (
        ("role", ctypes.c_char_p),
        ("content", ctypes.c_char_p),
    )


_MODEL_DEFAULTS: dict[str, Any] = {
    "devices": None,
    "tensor_overrides": None,
    "n_gpu_layers": -1,
    "split_mode": 1,
    "load_mode": -1,
    "unknown": 1,
    "main_gpu": 0,
    "tensor_split": None,
    "progress_data": None,
    "kv_overrides": None,
    "vocab_only": False,
    "check_tensors": False,
    "use_extra_buffers": True,
    "no_host": False,
    "no_alloc": False,
    "load_mtp": False,
}
_CONTEXT_DEFAULTS: dict[str, Any] = {
    "n_ctx": 512,
    "n_batch": 2048,
    "n_ubatch": 512,
    "n_seq_max": 1,
    "n_outputs_max": 0,
    "n_outputs_max_per_seq": 1,
    "n_threads": 4,
    "n_threads_batch": 4,
    "rope_scaling_type": -1,
    "flash_attn_type": -1,
    "yarn_ext_factor": -1.0,
    "yarn_beta_slow": -1.0,
    "yarn_orig_ctx": 0,
    "defrag_threshold": -1.0,
    "eval_callback": None,
    "type_k": 1,
    "type_v": 1,
    "embeddings": False,
    "offload_kqv": True,
    "no_perf": True,
    "op_offload": True,
    "swa_full": True,
    "kv_unified": False,
    "samplers": None,
    "n_samplers": 0,
    "other": None,
}


def moved(model: ModelParams, context: ContextParams) -> list[str]:
    """Name the fields whose defaults are not those of this release."""
    pairs = ((model, _MODEL_DEFAULTS), (context, _CONTEXT_DEFAULTS))
    return [
        f"{type(params).__name__}.{name} is {getattr(params, name)!r}, not {value!r}"
        for params, defaults in pairs
        for name, value in defaults.items()
        if getattr(params, name) != value
    ]
