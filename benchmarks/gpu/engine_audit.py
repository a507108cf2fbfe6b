"""What engines verify drafts by, and our functions in its place, audited for the law of what they put out.

    python -m benchmarks.gpu.engine_audit [--draws 200000] [--chains 20000] [--seconds 10] [--only vllm]
    python -m benchmarks.gpu.engine_audit --device cpu --draws 20000 --chains 500     # ours alone

Single tokens are audited by `otspec.audit` in batches: one sampled draft for flashinfer and vLLM, the three likeliest
tokens for SGLang, which are siblings there.  Chains of three tokens are audited by `otspec.audit_paths`, one by one;
SGLang is not told what law they are drawn from.  Laws are handed over as float32, filled up with tokens of probability
0 to a multiple of four, for which an engine compiles its kernel once.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
import typer
from torch import Tensor

import otspec
from benchmarks.gpu.engines import own, there
from otspec.decode.pair.loading import device_of
from otspec.engines import flashinfer, sglang, vllm
from otspec.errors import ProblemError
from otspec.laws import FloatArray
from otspec.reporting.console import console, errors
from otspec.reporting.tables import TextTable

FOUR = 4
LIKELIEST = 3
LENGTH = 3
"""Tokens of a chain."""
FINE = 1e-9
"""Resolution that no number of draws reaches: all of them are used."""
Verify = Callable[..., Any]


def _filled(law: Tensor) -> Tensor:
    return torch.nn.functional.pad(law, (0, -law.shape[-1] % FOUR))


def _after_flashinfer(verify: Verify, p: Tensor, q: Tensor, tokens: Tensor) -> Tensor:
    """Shape (B, L + 1), from laws of shape (B, L + 1, V) and (B, L, V)."""
    return verify(q, tokens.to(torch.int32), p)[0]


def _after_vllm(verify: Verify, p: Tensor, q: Tensor, tokens: Tensor) -> Tensor:
    """The same; vLLM hands over the token after a whole chain, which it has drawn from its law."""
    batch, length = tokens.shape
    bonus = torch.multinomial(p[:, -1], 1)
    sampling = SimpleNamespace(
        temperature=torch.ones(batch, device=p.device), all_greedy=False, all_random=True, generators={}
    )
    ends = length * torch.arange(1, batch + 1, dtype=torch.int32, device=p.device)
    logits = p[:, :-1].flatten(0, 1).log()
    drafts = tokens.to(torch.int32).flatten()
    return verify(drafts, [length] * batch, length, ends, q.flatten(0, 1), logits, bonus, sampling)


def _after_sglang(verify: Verify, p: Tensor, q: Tensor, tokens: Tensor) -> Tensor:
    """The same of SGLang, which is not told q."""
    del q
    node = torch.arange(tokens.shape[1] + 1, device=p.device)
    after = torch.where(node < tokens.shape[1], node + 1, -1)
    return _walked(verify, p, tokens, after, torch.full_like(after, -1))[0]


def _walked(verify: Verify, laws: Tensor, tokens: Tensor, child: Tensor, sibling: Tensor) -> tuple[Tensor, Tensor]:
    """What SGLang's function puts out after each node of trees, shape (B, N), -1 off the walk; the first child it took.

    Parameters
    ----------
    verify : callable
    laws : Tensor, shape (B, N, V)
    tokens : Tensor, shape (B, N - 1)
        Of all nodes but the root.
    child, sibling : Tensor, shape (N,)
        The first child and the next sibling of each node, or -1.
    """
    batch, nodes = laws.shape[:2]
    places = torch.arange(batch * nodes, device=laws.device).view(batch, nodes)
    predicts = torch.full((batch * nodes,), -1, dtype=torch.int32, device=laws.device)
    index = torch.full((batch, nodes), -1, dtype=torch.int32, device=laws.device)
    number = torch.zeros(batch, dtype=torch.int32, device=laws.device)
    links = (one.expand(batch, -1).contiguous() for one in (child, sibling))
    coins, last = torch.rand((batch, nodes), device=laws.device), torch.rand(batch, device=laws.device)
    candidates = torch.nn.functional.pad(tokens, (1, 0))
    verify(predicts, index, number, candidates, places, *links, coins, last, laws, torch.zeros_like(laws))
    return predicts.view(batch, nodes), torch.where(number > 0, index[:, 1] - places[:, 0], -1)


AFTER: dict[str, Callable[[Verify, Tensor, Tensor, Tensor], Tensor]] = {
    "flashinfer": _after_flashinfer,
    "vllm": _after_vllm,
    "sglang": _after_sglang,
}
"""What engines put out for sampled chains."""
SAMPLED = ("flashinfer", "vllm")
"""Engines that verify against the law that drafts are drawn from."""
OURS: dict[str, Verify] = {
    "flashinfer": flashinfer.chain_speculative_sampling,
    "vllm": vllm.rejection_sample,
    "sglang": sglang.tree_speculative_sampling_target_only,
}


def one_sampled(engine: str, verify: Verify, device: torch.device) -> Callable[..., tuple[Tensor, Tensor]]:
    """A rule for one sampled draft, of the form that `otspec.audit` calls torch."""

    def rule(p: Tensor, q: Tensor, drafts: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        del generator  # each has its own
        laws = _filled(p).float().to(device).unsqueeze(1)
        found = AFTER[engine](
            verify, laws.repeat(1, 2, 1), _filled(q).float().to(device).unsqueeze(1), drafts.to(device)
        )
        found = found.long().cpu()
        return found[:, 0], torch.where(found[:, 1] >= 0, 0, -1)

    return rule


def several_likeliest(verify: Verify, device: torch.device) -> Callable[..., tuple[Tensor, Tensor]]:
    """The same for the children of one root, verified against the target alone."""

    def rule(p: Tensor, q: Tensor, drafts: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        del q, generator
        n = drafts.shape[1]
        laws = _filled(p).float().to(device).unsqueeze(1).repeat(1, n + 1, 1)
        node = torch.arange(n + 1, device=device)
        child, sibling = torch.where(node == 0, 1, -1), torch.where((node > 0) & (node < n), node + 1, -1)
        out, taken = _walked(verify, laws, drafts.to(device), child, sibling)
        return out[:, 0].long().cpu(), torch.where(taken > 0, taken - 1, -1).cpu()

    return rule


def chain(engine: str, verify: Verify, device: torch.device) -> Callable[..., list[int]]:
    """A rule for one sampled chain, of the form that `otspec.audit_paths` calls chains."""

    def rule(target: FloatArray, draft: FloatArray, paths: np.ndarray[Any, Any], rng: np.random.Generator) -> list[int]:
        del rng
        p, q = (_filled(torch.from_numpy(laws)).float().to(device) for laws in (target, draft))
        found = AFTER[engine](verify, p, q, torch.from_numpy(paths).to(device))[0].tolist()
        return [token for token in found if token >= 0]

    return rule


class Line(NamedTuple):
    """What one audit found."""

    by: str
    what: str
    audit: Any
    seconds: float

    def cells(self) -> tuple[str, ...]:
        """For a table."""
        audit, spent = self.audit, f"{self.seconds:.1f}"
        if not audit.instances:  # nothing was put out, or not in time
            return self.what, self.by, audit.reason, *["-"] * 4, spent
        scale = LENGTH if isinstance(audit, otspec.PathAudit) else 1
        return (
            self.what,
            self.by,
            "biased" if audit.verdict is otspec.AuditVerdict.NOT_LOSSLESS else "no evidence of bias",
            f"{audit.outcome.draws:,}",
            f"{max(found.tv_interval[1] for found in audit.instances):.4f}",
            *(f"{scale * audit.mean(figure):.4f}" for figure in ("membership", "optimum")),
            spent,
        )


class Size(NamedTuple):
    """How much is drawn, at most."""

    draws: int
    chains: int
    seconds: float | None = None
    """Of each audit."""


def audits(engine: str, name: str, verify: Verify, device: torch.device, size: Size) -> Iterator[Line]:
    """All audits of one function; 0 draws, or chains, for none of those."""
    sampled = engine in SAMPLED
    rule = one_sampled(engine, verify, device) if sampled else several_likeliest(verify, device)
    _compile(rule)
    settings: dict[str, Any] = {"resolution": FINE, "max_seconds": size.seconds}
    drafts: dict[str, Any] = {"scheme": "iid", "n": 1} if sampled else {"scheme": "top_k", "n": LIKELIEST}
    made: dict[str, Callable[[], Any]] = {}
    if size.draws:
        what = "one sampled token" if sampled else f"the {LIKELIEST} likeliest tokens"
        made[what] = lambda: otspec.audit(rule, budget=size.draws, **drafts, **settings)
    if size.chains:
        walk = chain(engine, verify, device)
        what = f"chains of {LENGTH} tokens"
        made[what] = lambda: otspec.audit_paths(walk, 1, LENGTH, budget=size.chains, **settings)
    for what, call in made.items():
        started = time.perf_counter()
        audit = call()
        yield Line(name, what, audit, time.perf_counter() - started)


def _compile(rule: Callable[..., Any]) -> None:
    """Call a rule once: what engines compile then is no part of the seconds of an audit."""
    law = torch.full((1, FOUR), 1 / FOUR, dtype=torch.float64)
    rule(law, law, torch.zeros((1, 1), dtype=torch.int64), torch.Generator())


def table(lines: Iterable[Line]) -> TextTable:
    """A line for each audit."""
    header = ("drafts", "by", "found", "draws", "TV at most", "accepted", "at most", "s")
    note = (
        "Total variation to the target, the worst of all instances, with confidence 0.99. Accepted: of one position, "
        "that the output is a draft; of chains, tokens on the mean; beside it what a lossless rule can reach."
    )
    return TextTable("Functions of engines, audited", header, [one.cells() for one in lines], note, labels=2)


def asked(only: str) -> list[str]:
    """The engines that are named, or all."""
    names = [name.strip() for name in only.split(",")] if only else list(OURS)
    if unknown := [name for name in names if name not in OURS]:
        raise ProblemError(f"no engine {unknown[0]!r}; known: {', '.join(OURS)}")
    return names


def main(
    draws: Annotated[int, typer.Option(help="Single positions of each function, at most.")] = 200_000,
    chains: Annotated[int, typer.Option(help="Chains of each function, at most.")] = 20_000,
    seconds: Annotated[float | None, typer.Option(help="Of each audit, at most.")] = None,
    only: Annotated[str, typer.Option(help="Some of the engines, with commas between them.")] = "",
    device: Annotated[str, typer.Option(help="Where they run; the engines' own need a GPU.")] = "cuda",
    ours: Annotated[bool, typer.Option(help="Audit ours in their places, too.")] = True,
) -> None:
    """Audit what verifies drafts in engines."""
    place, size = device_of(device), Size(draws, chains, seconds)
    torch.manual_seed(0)
    lines: list[Line] = []
    for engine in asked(only):
        if there(engine, place):
            try:
                lines += told(audits(engine, engine, own(engine), place, size))
            except Exception as error:  # on a machine that nobody watches the next is worth a try
                errors.print(f"{engine}: {type(error).__name__}: {error}", markup=False, highlight=False)
        if ours:
            lines += told(audits(engine, f"otspec, as {engine}", OURS[engine], place, size))
    if not lines:
        errors.print("Nothing was audited: the engines' own functions need a GPU, and the engine on the path")
        sys.exit(1)
    console.print(table(lines).on_screen(console.width))


def told(lines: Iterable[Line]) -> Iterator[Line]:
    """The same; each is said as soon as it is there."""
    for one in lines:
        errors.print(", ".join(one.cells()), markup=False, highlight=False, soft_wrap=True)
        yield one


if __name__ == "__main__":
    typer.run(main)
