"""The engine's C interface, as far as we use it; lives in the engine's own process.

A handle is an address. Whoever makes one frees it; what a chain of samplers was given belongs to
the chain. Nothing here is safe to call from two threads.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from prong.provider.local.layout import (
    RELEASE,
    Batch,
    Candidate,
    Candidates,
    ChainParams,
    ChatMessage,
    ContextParams,
    Log,
    ModelParams,
    Progress,
    moved,
)

_P, _I, _B, _S = ctypes.c_void_p, ctypes.c_int32, ctypes.c_bool, ctypes.c_char_p
_INTS = ctypes.POINTER(ctypes.c_int32)
_SIZE = ctypes.c_size_t

_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "llama_backend_init": (None, []),
    "llama_model_default_params": (ModelParams, []),
    "llama_context_default_params": (ContextParams, []),
    "llama_log_set": (None, [Log, _P]),
    "ggml_log_set": (None, [Log, _P]),
    "llama_model_load_from_file": (_P, [_S, ModelParams]),
    "llama_init_from_model": (_P, [_P, ContextParams]),
    "llama_free": (None, [_P]),
    "llama_model_free": (None, [_P]),
    "llama_get_memory": (_P, [_P]),
    "llama_model_get_vocab": (_P, [_P]),
    "llama_model_n_ctx_train": (_I, [_P]),
    "llama_model_n_layer": (_I, [_P]),
    "llama_model_n_embd": (_I, [_P]),
    "llama_model_n_head": (_I, [_P]),
    "llama_model_n_head_kv": (_I, [_P]),
    "llama_model_is_recurrent": (_B, [_P]),
    "llama_model_is_hybrid": (_B, [_P]),
    "llama_model_has_encoder": (_B, [_P]),
    "llama_model_desc": (_I, [_P, _S, _SIZE]),
    "llama_model_size": (ctypes.c_uint64, [_P]),
    "llama_model_chat_template": (_S, [_P, _S]),
    "llama_model_meta_val_str": (_I, [_P, _S, _S, _SIZE]),
    "llama_chat_apply_template": (
        _I,
        [_S, ctypes.POINTER(ChatMessage), _SIZE, _B, _S, _I],
    ),
    "llama_vocab_n_tokens": (_I, [_P]),
    "llama_vocab_is_eog": (_B, [_P, _I]),
    "llama_vocab_bos": (_I, [_P]),
    "llama_vocab_get_add_bos": (_B, [_P]),
    "llama_tokenize": (_I, [_P, _S, _I, _INTS, _I, _B, _B]),
    "llama_token_to_piece": (_I, [_P, _I, _S, _I, _I, _B]),
    "llama_memory_clear": (None, [_P, _B]),
    "llama_memory_seq_cp": (None, [_P, _I, _I, _I, _I]),
    "llama_memory_seq_rm": (_B, [_P, _I, _I, _I]),
    "llama_batch_init": (Batch, [_I, _I, _I]),
    "llama_batch_free": (None, [Batch]),
    "llama_decode": (_I, [_P, Batch]),
    "llama_get_logits_ith": (ctypes.POINTER(ctypes.c_float), [_P, _I]),
    "llama_sampler_chain_init": (_P, [ChainParams]),
    "llama_sampler_chain_add": (None, [_P, _P]),
    "llama_sampler_init_greedy": (_P, []),
    "llama_sampler_init_dist": (_P, [ctypes.c_uint32]),
    "llama_sampler_init_top_k": (_P, [_I]),
    "llama_sampler_init_top_p": (_P, [ctypes.c_float, _SIZE]),
    "llama_sampler_init_temp": (_P, [ctypes.c_float]),
    "llama_sampler_init_penalties": (
        _P,
        [_I, _I, ctypes.c_float, ctypes.c_float, ctypes.c_float],
    ),
    "llama_sampler_init_grammar": (_P, [_P, _S, _S]),
    "llama_sampler_init_grammar_lazy_patterns": (
        _P,
        [_P, _S, _S, ctypes.POINTER(_S), _SIZE, _INTS, _SIZE],
    ),
    "llama_sampler_sample": (_I, [_P, _P, _I]),
    "llama_sampler_accept": (None, [_P, _I]),
    "llama_sampler_apply": (None, [_P, ctypes.POINTER(Candidates)]),
    "llama_sampler_free": (None, [_P]),
    "llama_state_seq_get_size": (_SIZE, [_P, _I]),
    "llama_state_seq_save_file": (_SIZE, [_P, _S, _I, _INTS, _SIZE]),
    "llama_state_seq_load_file": (_SIZE, [_P, _S, _I, _INTS, _SIZE, ctypes.POINTER(_SIZE)]),
}


class Unusable(Exception):
    """The engine or the model cannot be used; the text says why and what to do."""


class Native:
    """The loaded library."""

    def __init__(self, library: Path) -> None:
        """Load it and check that its structures are those we know."""
        # Waiting threads that spin starve whatever else wants a core, tests above all.
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        try:
            self._library = ctypes.CDLL(str(library))
            for name, (result, arguments) in _FUNCTIONS.items():
                function = getattr(self._library, name)
                function.restype, function.argtypes = result, arguments
        except (OSError, AttributeError) as error:
            raise Unusable(f"{library} is not xllamacpp {RELEASE}: {error}") from error
        wrong = moved(
            self._library.llama_model_default_params(),
            self._library.llama_context_default_params(),
        )
        if wrong:
            raise Unusable(f"{library} is not xllamacpp {RELEASE}: {'; '.join(wrong[:3])}")
        self.lines: list[str] = []
        """What the engine last complained about."""
        self._log = Log(self._heard)
        self._library.llama_log_set(self._log, None)
        self._library.ggml_log_set(self._log, None)
        self._library.llama_backend_init()

    def __getattr__(self, name: str) -> Any:
        """Give a function of the library by its name without the prefix."""
        return getattr(self._library, f"llama_{name}")

    def _heard(self, level: int, text: bytes, _data: object) -> None:
        # 3 is a warning, 4 an error, 5 goes on with the line before.
        if level in {3, 4}:
            self.lines.append(text.decode("utf-8", "replace").strip())
            del self.lines[:-20]


class Model:
    """Weights, their vocabulary and their template."""

    def __init__(self, native: Native, path: Path, progress: Callable[[float], bool]) -> None:
        """Load a GGUF file."""
        self.native = native
        params = native.model_default_params()

        def report(share: float, _data: object) -> bool:
            return progress(share)

        params.progress = callback = Progress(report)
        params.n_gpu_layers = 0
        native.lines.clear()
        self.handle = native.model_load_from_file(os.fsencode(path), params)
        del callback
        if not self.handle:
            raise Unusable(_why_not_loaded(path, native.lines))
        self.vocab = native.model_get_vocab(self.handle)
        self.trained = int(native.model_n_ctx_train(self.handle))
        self.partial = not (
            native.model_is_recurrent(self.handle) or native.model_is_hybrid(self.handle)
        )
        """Whether part of a sequence can be copied; not so where a state stands for all of it."""
        if native.model_has_encoder(self.handle):
            raise Unusable(f"{path} is not a model that writes text; choose a chat model")

    @property
    def cell_bytes(self) -> int:
        """How many bytes of cache one token takes."""
        native, handle = self.native, self.handle
        heads, kv_heads = native.model_n_head(handle), native.model_n_head_kv(handle)
        width = native.model_n_embd(handle) // max(1, heads) * kv_heads
        arch = self.meta("general.architecture")
        keys = int(self.meta(f"{arch}.attention.key_length") or 0) * kv_heads or width
        values = int(self.meta(f"{arch}.attention.value_length") or 0) * kv_heads or width
        return int(native.model_n_layer(handle)) * (keys + values) * 2

    @property
    def description(self) -> str:
        """Family, size and quantisation in a few words."""
        buffer = ctypes.create_string_buffer(256)
        self.native.model_desc(self.handle, buffer, 256)
        return buffer.value.decode("utf-8", "replace")

    @property
    def template(self) -> str:
        """The chat template that came with the weights, empty if none did."""
        found = self.native.model_chat_template(self.handle, None)
        return found.decode("utf-8", "replace") if found else ""

    def meta(self, key: str) -> str:
        """Read a value of the file's header; empty if it has none."""
        buffer = ctypes.create_string_buffer(256)
        size = self.native.model_meta_val_str(self.handle, key.encode(), buffer, 256)
        return buffer.value.decode("utf-8", "replace") if size >= 0 else ""

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Turn text into tokens; only with `special` do the template's marks mean anything."""
        data = text.encode()
        room = len(data) + 16
        found = (ctypes.c_int32 * room)()
        count = self.native.tokenize(self.vocab, data, len(data), found, room, False, special)
        assert count >= 0, "a byte makes at most one token"
        return list(found[:count])

    def piece(self, token: int) -> bytes:
        """Give the bytes of a token."""
        buffer = ctypes.create_string_buffer(256)
        size = self.native.token_to_piece(self.vocab, token, buffer, 256, 0, True)
        return buffer.raw[: max(0, size)]

    def ends(self, token: int) -> bool:
        """Whether a token ends a turn."""
        return bool(self.native.vocab_is_eog(self.vocab, token))

    @property
    def first(self) -> list[int]:
        """The tokens that every text begins with."""
        if not self.native.vocab_get_add_bos(self.vocab):
            return []
        return [int(self.native.vocab_bos(self.vocab))]

    def apply_template(self, messages: Sequence[tuple[str, str]], *, ask: bool) -> str | None:
        """Render messages by the model's template; None if the engine does not know it."""
        template = self.template.encode()
        chat = (ChatMessage * len(messages))(
            *(ChatMessage(role.encode(), content.encode()) for role, content in messages)
        )
        room = 4096 + sum(len(content.encode()) for _, content in messages) * 2
        buffer = ctypes.create_string_buffer(room)
        size = self.native.chat_apply_template(template, chat, len(messages), ask, buffer, room)
        return buffer.raw[:size].decode("utf-8", "replace") if 0 <= size <= room else None


class Sampler:
    """Chooses the tokens of one sequence, within a grammar if there is one."""

    def __init__(
        self, model: Model, *, grammar: str, trigger: str, temperature: float, seed: int
    ) -> None:
        """Make the chains; with a trigger the grammar holds from where that text begins."""
        self._native, self._grammar = model.native, None
        self._plain = self._chain(temperature, seed)
        self._bound = None
        if grammar:
            self._grammar = self._parse(model, grammar, trigger)
            self._bound = self._chain(temperature, seed, first=self._grammar)

    def _parse(self, model: Model, grammar: str, trigger: str) -> Any:
        native, text = self._native, grammar.encode()
        if trigger:
            pattern = rf"[\s\S]*?({re.escape(trigger)}[\s\S]*)".encode()
            patterns = (ctypes.c_char_p * 1)(pattern)
            made = native.sampler_init_grammar_lazy_patterns(
                model.vocab, text, b"root", patterns, 1, None, 0
            )
        else:
            made = native.sampler_init_grammar(model.vocab, text, b"root")
        if not made:
            # A null sampler crashes the process as soon as it is used.
            raise Unusable(f"the grammar could not be read: {' '.join(native.lines[-1:])}")
        return made

    def _chain(self, temperature: float, seed: int, *, first: Any = None) -> Any:
        native = self._native
        chain = native.sampler_chain_init(ChainParams(no_perf=True))
        steps = [] if first is None else [first]
        if temperature <= 0:
            steps.append(native.sampler_init_greedy())
        else:
            steps += [
                native.sampler_init_top_k(40),
                native.sampler_init_top_p(0.95, 1),
                native.sampler_init_temp(temperature),
                native.sampler_init_dist(seed),
            ]
        for step in steps:
            native.sampler_chain_add(chain, step)
        return chain

    def choose(self, context: Any, row: int, wanted: int | None = None) -> int:
        """Choose the next token by the logits of a row of the last batch, or take the wanted."""
        token = wanted
        if token is None:
            token = int(self._native.sampler_sample(self._plain, context, row))
        if self._grammar is None:
            return token
        # One candidate is checked far sooner than a whole vocabulary is filtered.
        if self._allows(token):
            self._native.sampler_accept(self._grammar, token)
            return token
        return int(self._native.sampler_sample(self._bound, context, row))

    def take(self, tokens: Sequence[int]) -> None:
        """Note that tokens stand there which were not chosen here."""
        if self._grammar is not None:
            for token in tokens:
                self._native.sampler_accept(self._grammar, token)

    def _allows(self, token: int) -> bool:
        one = Candidate(token, 1.0, 0.0)
        held = Candidates(ctypes.pointer(one), 1, -1, False)
        self._native.sampler_apply(self._grammar, ctypes.byref(held))
        return one.logit != float("-inf")

    def close(self) -> None:
        """Free the chains, and with them everything in them."""
        self._native.sampler_free(self._plain)
        if self._bound is not None:
            self._native.sampler_free(self._bound)


def _why_not_loaded(path: Path, lines: Sequence[str]) -> str:
    said = " ".join(lines)
    reason = next((line for line in lines if "error" in line.lower()), said[-300:])
    low = said.lower()
    if "unknown model architecture" in low:
        return f"the engine does not know the architecture of {path}: {reason}; choose another file"
    if "alloc" in low or "memory" in low:
        return f"there is too little memory for {path}: {reason}; choose a smaller model"
    return f"{path} could not be loaded: {reason or 'no reason given'}; is it a whole GGUF file?"
