"""The scheduler: one context, many sequences, one batch per step.

A request is admitted by borrowing the longest computed prefix there is, whoever computed it and
whether or not that one still runs; if another request is about to compute a longer one, it waits
for that instead of computing it again. A step is one batch: a token for every reply under way, and
as much of the prompts as fits. Steps are short, so that a request that was given up ends soon.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from prong.provider.local.binding import Model, Native, Sampler, Unusable
from prong.provider.local.form import recognise
from prong.provider.local.job import CompletionDone, CompletionRequest, Draft, Job
from prong.provider.local.keep import Keep
from prong.provider.local.layout import Batch
from prong.provider.local.template import ChatRole, Template, derive
from prong.provider.local.token_cache import Strand, TokenCache
from prong.system.identity import usable_cores

SEQUENCES = 64
_BATCH = 512
_CHUNK = 256
"""Prompt tokens of a step: what a request that was given up costs the others at most."""
_TAKEN = _BATCH // SEQUENCES
"""Tokens of a step for each reply under way, if it has more than one to compute."""
_WORTH = 16
"""Tokens that must be gained by waiting for another request's prefix."""


class Core:
    """A model with its cache, and the requests that work on it."""

    def __init__(self, native: Native, model: Model, *, cache_mb: int, threads: int) -> None:
        """Make the context; it takes its memory at once."""
        self.native, self.model = native, model
        self.form = recognise(model.template)
        self.template: Template = derive(
            lambda talk, ask: model.apply_template(talk, ask=ask), self.form.results
        )
        cells = max(_BATCH, cache_mb * 1024 * 1024 // max(1, model.cell_bytes)) // 256 * 256
        self.context_tokens = min(model.trained, cells)
        self.cache = TokenCache(SEQUENCES, cells)
        self.context = self._context(cells, threads, cache_mb)
        self._memory = native.get_memory(self.context)
        self._batch: Batch = native.batch_init(_BATCH, 0, 1)
        self.jobs: list[Job] = []
        self._spans: dict[str, list[int]] = {}
        self._written: dict[str, list[tuple[str, list[int]]]] = {}
        self.keep: Keep | None = None

    def _context(self, cells: int, threads: int, cache_mb: int) -> Any:
        params = self.native.context_default_params()
        params.n_ctx = cells
        params.n_batch = params.n_ubatch = _BATCH
        params.n_seq_max = SEQUENCES
        params.n_threads = params.n_threads_batch = threads
        params.kv_unified = True
        made = self.native.init_from_model(self.model.handle, params)
        if not made:
            raise Unusable(
                f"there is too little memory for a cache of {cache_mb} MB beside the model "
                f"({' '.join(self.native.lines[-1:])}); set PRONG_LOCAL_CACHE_MB lower"
            )
        return made

    @property
    def kept_note(self) -> str:
        """What the user should know about what is kept on disk."""
        return self.keep.note if self.keep is not None else ""

    @property
    def busy(self) -> bool:
        """Whether there is anything to compute."""
        return bool(self.jobs)

    def submit(self, ask: CompletionRequest, tell: Callable[[str, Any], None]) -> Job | None:
        """Take a request on; None if it was refused, which it has then been told."""
        tokens = self.render(ask)
        if len(tokens) + min(ask.max_tokens, 1) > self.context_tokens:
            tell("error", {"kind": "overflow", "message": self._too_long(len(tokens))})
            return None
        draft = Draft(self.model.tokenize(ask.opening, special=False) if ask.opening else ())
        job = Job(ask, tokens, tell, ask.turns[-1][0], time.monotonic(), draft)
        self.jobs.append(job)
        return job

    def _too_long(self, count: int) -> str:
        limit = f"it has {count:,} tokens, the model reads {self.context_tokens:,}"
        if self.context_tokens == self.model.trained:
            return limit
        return (
            f"{limit} with this cache and {self.model.trained:,} with a larger one, which "
            "PRONG_LOCAL_CACHE_MB sets"
        )

    def cancel(self, job: Job) -> None:
        """Give a request up; what it computed stays of use."""
        if not job.over:
            self._leave(job)

    def render(self, ask: CompletionRequest) -> list[int]:
        """Turn a request's turns into tokens, ending where the reply begins."""
        tokens = list(self.model.first)
        before: ChatRole | None = None
        parent = ""
        for key, role, pieces in ask.turns:
            tokens += self._span(key, parent, before, role, pieces)
            before, parent = role, key
        return tokens + self.model.tokenize(self.template.joint(before, "assistant"), special=True)

    def _span(
        self, key: str, parent: str, before: ChatRole | None, role: ChatRole, pieces: list[str]
    ) -> list[int]:
        """Give the tokens of a turn: settled once, for as long as this process lives.

        Contents are not searched for the template's marks: they cannot end their turn. The tokens
        of a reply are those that were generated, where it was generated here.
        """
        found = self._spans.get(key)
        if found is None:
            joint = self.model.tokenize(self.template.joint(before, role), special=True)
            written = self._written.get(parent, ()) if role == "assistant" else ()
            text = "".join(pieces)
            own = next((made for said, made in written if said == text), None)
            found = joint + (own or self._tokens(pieces))
            self._spans[key] = found
        return found

    def _tokens(self, pieces: Sequence[str]) -> list[int]:
        """Give the tokens of contents and marks in turn."""
        found: list[int] = []
        for number, piece in enumerate(pieces):
            found += self.model.tokenize(piece, special=number % 2 == 1)
        return found

    def step(self) -> None:
        """Compute one batch."""
        for job in [job for job in self.jobs if job.strand is None]:
            self._admit(job)
        rows, grown = self._fill()
        if not self._batch.n_tokens:
            return
        if not self._decode():
            return
        for job, count in grown:
            assert job.strand is not None
            self.cache.grow(job.strand, count)
            if not job.begun:
                self._advance(job, count)
        for job, row in rows:
            self._choose(job, row)

    def _admit(self, job: Job) -> None:
        source, length = self.cache.find(job.tokens) if job.ask.share else (None, 0)
        if job.ask.share and self.cache.coming(job.tokens[:-1]) >= length + _WORTH:
            return
        if self.cache.full and not self._evict():
            return
        # The last token is computed again, whatever is there: its logits are what is wanted.
        length = min(length, len(job.tokens) - 1)
        if not self.model.partial and source is not None and length < source.held:
            source, length = None, 0
        if job.ask.share and self.keep is not None:
            source, length = self._restored(job, source, length)
        strand = self.cache.open(job.tokens, source if length else None, length)
        if source is not None and length:
            end = length if self.model.partial else -1
            self.native.memory_seq_cp(self._memory, source.id, strand.id, 0, end)
        job.strand, job.reused = strand, length
        job.tell("admitted", {"reused": length, "total": len(job.tokens)})
        if len(job.tokens) - length > _CHUNK:
            # On a busy machine the first step alone may take many seconds.
            job.tell("progress", {"what": "prompt", "done": length, "total": len(job.tokens)})

    def _restored(self, job: Job, source: Strand | None, length: int) -> tuple[Strand | None, int]:
        """Take a longer prefix from the disk, if there is one."""
        assert self.keep is not None
        found = self.keep.find(job.tokens, length + _CHUNK)
        if found is None or self.cache.full:
            return source, length
        strand = self.cache.open(found.tokens, None, 0)
        if not self.keep.load(found, self.native, self.context, strand.id):
            self.native.memory_seq_rm(self._memory, strand.id, -1, -1)
            self.cache.drop(strand)
            return source, length
        self.cache.grow(strand, len(found.tokens))
        self.cache.rest(strand)
        return strand, min(found.common, len(job.tokens) - 1)

    def _fill(self) -> tuple[list[tuple[Job, int]], list[tuple[Job, int]]]:
        """Put the next batch together: rows that give a token, and how much each job grows."""
        self._batch.n_tokens = 0
        rows: list[tuple[Job, int]] = []
        grown: list[tuple[Job, int]] = []
        running = [job for job in self.jobs if job.strand is not None]
        for job in running:
            if job.begun:
                assert job.strand is not None
                left = len(job.strand.tokens) - job.strand.held
                count = min(left, _TAKEN)
                row = self._put(job, count)
                if count == left:
                    rows.append((job, row))
                grown.append((job, count))
        room = _CHUNK
        for job in running:
            if job.begun or room <= 0:
                continue
            assert job.strand is not None
            left = len(job.tokens) - job.strand.held
            count = min(left, room, _BATCH - self._batch.n_tokens)
            if count <= 0:
                continue
            row = self._put(job, count)
            if count == left:
                rows.append((job, row))
            grown.append((job, count))
            room -= count
        return rows, grown

    def _put(self, job: Job, count: int) -> int:
        strand, batch = job.strand, self._batch
        assert strand is not None
        start = batch.n_tokens
        for offset in range(count):
            at, place = start + offset, strand.held + offset
            batch.token[at] = strand.tokens[place]
            batch.pos[at] = place
            batch.n_seq_id[at] = 1
            batch.seq_id[at][0] = strand.id
            batch.logits[at] = 0
        last = start + count - 1
        batch.logits[last] = int(strand.held + count == len(strand.tokens))
        batch.n_tokens = start + count
        return last

    def _decode(self) -> bool:
        """Compute the batch; room is made by dropping what rests, or else by ending a request."""
        while True:
            code = self.native.decode(self.context, self._batch)
            if code == 0:
                return True
            if code == 1 and self._evict():
                continue
            self._fail_one(code)
            return False

    def _evict(self) -> bool:
        oldest = self.cache.oldest()
        if oldest is None:
            return False
        if self.keep is not None:
            self.keep.save(oldest, self.native, self.context)
        self._forget(oldest)
        self.cache.drop(oldest)
        return True

    def _forget(self, strand: Strand) -> None:
        self.native.memory_seq_rm(self._memory, strand.id, -1, -1)

    def _fail_one(self, code: int) -> None:
        """End the request that holds most, so that the others can go on."""
        running = [job for job in self.jobs if job.strand is not None]
        job = max(running, key=lambda one: one.strand.held if one.strand else 0)
        if code == 1:
            told = {
                "kind": "memory",
                "message": f"the cache of {self.cache.room} tokens is full of replies under way; "
                "set PRONG_LOCAL_CACHE_MB higher or start fewer agents at once",
            }
        else:
            told = {"kind": "engine", "message": f"the engine could not compute (code {code})"}
        job.tell("error", told)
        self._leave(job)

    def _advance(self, job: Job, count: int) -> None:
        job.processed += count
        if job.strand is not None and job.strand.held < len(job.tokens):
            done = {"done": job.reused + job.processed, "total": len(job.tokens)}
            job.tell("progress", {"what": "prompt", **done})

    def _choose(self, job: Job, row: int) -> None:
        """Take the next token of a reply."""
        if not job.begun:
            self._begin(job)
        if job.over:
            return
        assert job.sampler is not None
        assert job.strand is not None
        draft = job.draft
        token = job.sampler.choose(self.context, row, draft.next_given())
        if self.model.ends(token):
            self._finish(job, "stop")
            return
        draft.add(token, self.model.piece(token))
        job.strand.tokens.append(token)
        begins = draft.find_call(job.ask.trigger)
        if begins is not None:
            self._retake(job, begins)
        if job.over:
            return
        self._tell(job, draft.give_out())
        # Text alone: a file that a call writes may well be the same line a hundred times.
        free = draft.watched or not job.ask.grammar
        if len(draft.made) >= job.ask.max_tokens or len(job.strand.tokens) >= self.context_tokens:
            self._finish(job, "length")
        elif free and draft.loops():
            self._finish(job, "loop")

    def _begin(self, job: Job) -> None:
        """Note that a prompt is computed, and make what chooses the reply."""
        job.begun = time.monotonic()
        job.tell("began", {"reused": job.reused, "processed": job.processed})
        if job.ask.max_tokens == 0:
            self._finish(job, "stop")
            return
        job.sampler = self._sampler(job)
        if job.sampler is not None and job.ask.proper and self.model.partial:
            job.draft.watch(first_only=job.ask.first_only)

    def _sampler(self, job: Job, *, bound: bool = False) -> Sampler | None:
        """Make what chooses a job's tokens; none, and the job is over, if its grammar is none."""
        ask = job.ask
        lazy = bool(ask.proper) and not bound
        try:
            return Sampler(
                self.model,
                grammar="" if lazy and not ask.trigger else ask.grammar,
                trigger=ask.trigger if lazy else "",
                temperature=ask.temperature,
                seed=ask.seed,
            )
        except Unusable as error:
            job.tell("error", {"kind": "request", "message": str(error)})
            self._leave(job)
            return None

    def _retake(self, job: Job, begins: int) -> None:
        """Put the right beginning in the place of a call that was begun in another form."""
        strand, sampler = job.strand, self._sampler(job, bound=True)
        if strand is None or sampler is None:
            return
        kept, lead = job.draft.cut(begins)
        opening = self._tokens(job.ask.proper)
        tokens = [*self.model.tokenize(lead, special=False), *opening]
        length = len(job.tokens) + kept
        self.native.memory_seq_rm(self._memory, strand.id, length, -1)
        self.cache.turn(strand, length, tokens)
        job.draft.retake(begins, kept, tokens, "".join(job.ask.proper))
        assert job.sampler is not None
        job.sampler.close()
        job.sampler = sampler
        sampler.take(opening)

    @staticmethod
    def _tell(job: Job, text: str) -> None:
        if text:
            job.tell("piece", text)

    def _finish(self, job: Job, reason: Literal["stop", "length", "loop"]) -> None:
        now = time.monotonic()
        draft = job.draft
        self._tell(job, draft.end())
        if draft.made:
            self._written.setdefault(job.key, []).append((draft.text, draft.made))
        done = CompletionDone(
            reason=reason,
            reused=job.reused,
            processed=job.processed,
            output=len(draft.made),
            seconds=now - job.asked,
            prefill=job.begun - job.asked,
            cells=self.cache.cells,
        )
        job.tell("done", msgspec.to_builtins(done))
        self._leave(job)

    def _leave(self, job: Job) -> None:
        job.over = True
        self.jobs.remove(job)
        if job.sampler is not None:
            job.sampler.close()
        if job.strand is not None:
            for spare in self.cache.rest(job.strand):
                self._forget(spare)

    def logits(self, row: int) -> list[float]:
        """Give the logits of a row of the last batch; for measurements."""
        size = self.native.vocab_n_tokens(self.model.vocab)
        return self.native.get_logits_ith(self.context, row)[:size]

    def close(self) -> None:
        """Store what is worth storing; the process is about to end."""
        if self.keep is not None:
            for strand in sorted(self.cache, key=lambda one: -one.used)[:4]:
                self.keep.save(strand, self.native, self.context)


def threads() -> int:
    """Say how many cores this process may use."""
    return max(1, min(8, usable_cores()))
