"""vLLM offline (`LLM`): one engine that speculates, another one that does not, each started when it is needed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from otspec.engine_audit.adapters.seeding import request_seeds
from otspec.engine_audit.engine import Acceptance, Drafting, EngineDied, Sampling, Text, one_line
from otspec.errors import ProblemError
from otspec.extras import require

EXTENSION = "otspec.engine_audit.adapters.vllm_worker.WorkerExtension"
RULES = ("standard", "otspec")
SMALL = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_LOGGING_LEVEL": "ERROR"}
"""Of the environment, where it does not say otherwise: two engines fit into the memory of a small machine (a GiB for
the keys and values of each), and share its cores."""
OURS = {"OTSPEC_VLLM": "1", "VLLM_USE_V2_MODEL_RUNNER": "0"}
"""Of the environment while an engine starts that verifies by otspec's rule, which the first model runner has."""
COUNTERS = ("drafts", "draft_tokens", "accepted_tokens")


class Vllm:
    """vLLM's offline engine.

    Parameters
    ----------
    target : path
        ``"shipped"``, or a folder of the target model.
    draft : path, optional
        The same of the draft model.  Without one, drafts are n-grams of the text.
    drafts : int
        Tokens that are drafted at a time.
    sampled : bool
        Whether the draft model's tokens are drawn from its law (``draft_sample_method="probabilistic"``); vLLM drafts
        the likeliest ones by default.
    rule : str
        Who verifies: ``"standard"``, vLLM's own, or ``"otspec"``, our block verification, which has to be installed
        beside vLLM.
    mended : bool
        Whether what vLLM gets wrong on CPUs before it verifies (vllm-project/vllm#55005) is mended by
        `otspec.engines.vllm_cpu`; with otspec's rule it always is.
    dtype : str
        Of the weights.
    context : int, optional
        The most tokens of prompt and text; what the model says by default.
    speculative : mapping, optional
        Entries of ``speculative_config`` besides these, or in their place.
    logprobs : bool
        Whether to ask for log-probabilities; vLLM's are those of the model, before temperature and truncations.

    Raises
    ------
    MissingExtra
        If vLLM is not installed.
    ProblemError
        If there is no such folder, or a setting is out of its range.
    """

    name = "vllm"

    def __init__(
        self,
        *,
        target: str | Path,
        draft: str | Path | None = None,
        drafts: int = 3,
        sampled: bool = True,
        rule: str = "standard",
        mended: bool = False,
        dtype: str = "float32",
        context: int | None = None,
        speculative: Mapping[str, Any] | None = None,
        logprobs: bool = True,
    ) -> None:
        if drafts < 1:
            raise ProblemError(f"drafts = {drafts}; at least 1 token is drafted at a time")
        if rule not in RULES:
            raise ProblemError(f"no rule {rule!r} of vLLM; known: {', '.join(RULES)}")
        model = _folder("target", target)
        assistant = None if draft is None else _folder("draft", draft)
        for name, value in SMALL.items():
            os.environ.setdefault(name, value)
        self._vllm = require("vllm")
        self.version = str(self._vllm.__version__)
        if assistant is None:
            how, config = "n-grams", {"method": "ngram", "prompt_lookup_max": 3, "prompt_lookup_min": 1}
        else:
            how = "draft model, " + ("sampled" if sampled else "the likeliest tokens")
            kind = "probabilistic" if sampled else "greedy"
            config = {"method": "draft_model", "model": assistant, "draft_sample_method": kind}
        self._speculative = {**config, "num_speculative_tokens": drafts, **(speculative or {})}
        verifier = "otspec's block verification" if rule == "otspec" else "vLLM's own rule"
        more = "".join(f", {name} {value}" for name, value in (speculative or {}).items())
        self.method = f"{how}, {drafts} at a time{more}, {verifier}{', mended' if mended else ''}"
        self._draft, self._rule, self._mended, self._logprobs = assistant, rule, mended, logprobs
        self._settings = {
            "model": model,
            "dtype": dtype,
            "max_model_len": context,
            "enforce_eager": True,
            "disable_log_stats": False,
            "worker_extension_cls": EXTENSION,
        }
        self._engines: dict[bool, Any] = {}

    def texts(self, prompt: str, count: int, length: int, sampling: Sampling, seed: int, *, drafts: bool) -> list[Text]:
        """Independent completions, as one batch: see `otspec.engine_audit.Engine`.

        Raises
        ------
        EngineDied
            If vLLM does not start, or fails.
        ProblemError
            If it refuses the request.
        """
        engine = self._engine(drafts)
        asked = [
            self._vllm.SamplingParams(
                temperature=sampling.temperature,
                top_k=sampling.top_k or -1,
                top_p=1.0 if sampling.top_p is None else sampling.top_p,
                min_p=sampling.min_p or 0.0,
                max_tokens=length,
                seed=one,
                logprobs=0 if self._logprobs else None,
            )
            for one in request_seeds(seed, count, drafts=drafts)
        ]
        request = f"the request for {count} texts of {prompt!r}, seed {seed}"
        try:
            found = engine.generate([prompt] * count, asked, use_tqdm=False)
        except Exception as error:
            if isinstance(error, self._refusals()):
                raise ProblemError(f"vLLM refuses {request}: {one_line(error)}") from error
            _end(self._engines.pop(drafts))
            raise EngineDied(f"vLLM died at {request}: {one_line(error)}") from error
        return [_text(one.outputs[0]) for one in found]

    def acceptance(self) -> Acceptance | None:
        """What vLLM counts of its drafts (``vllm:spec_decode_...``); None before any.

        vLLM keeps the counts of the engine that was started last, so that there are none if texts without drafts were
        asked for after texts with drafts only; an audit begins without.
        """
        if (engine := self._engines.get(True)) is None:
            return None
        counts, per_position = Counter[str](), tuple[int, ...]()
        for metric in engine.get_metrics():
            what = metric.name.removeprefix("vllm:spec_decode_num_")
            if what == "accepted_tokens_per_pos":
                per_position = tuple(int(value) for value in metric.values)
            elif what in COUNTERS:
                counts[what] += int(metric.value)
        told = Acceptance(counts["drafts"], counts["draft_tokens"], counts["accepted_tokens"], per_position)
        return told if told.steps else None

    def drafting(self, sampling: Sampling) -> Drafting | None:
        """By the temperature alone: vLLM truncates no drafts.  The first token is not drafted."""
        if self._speculative["method"] != "draft_model" or self._speculative["model"] != self._draft:
            return None
        sampled = self._speculative["draft_sample_method"] == "probabilistic"
        return Drafting(Sampling(sampling.temperature if sampled else 0.0), after=1)

    def close(self) -> None:
        """End the engines' processes."""
        while self._engines:
            _end(self._engines.popitem()[1])

    def _refusals(self) -> tuple[type[Exception], ...]:
        """What vLLM raises at a request that it does not take, and survives."""
        known = getattr(getattr(self._vllm, "exceptions", None), "VLLMClientError", ValueError)
        return ValueError, known

    def _engine(self, drafts: bool) -> Any:
        if drafts not in self._engines:
            ours = drafts and self._rule == "otspec"
            config = {"speculative_config": self._speculative} if drafts else {}
            try:
                with _environment(OURS if ours else {"OTSPEC_VLLM": "0"}):
                    engine = self._vllm.LLM(**self._settings, **config)
            except Exception as error:
                raise EngineDied(
                    f"vLLM does not start with {self.method if drafts else 'no drafts'}: {one_line(error)}"
                ) from error
            self._engines[drafts] = engine
            if drafts and self._mended:
                engine.collective_rpc("otspec_mend")
            if ours and not all(engine.collective_rpc("otspec_verifies")):
                self.close()
                raise ProblemError(
                    "vLLM did not load otspec's rule: install otspec where vLLM is (pip install otspec-toolkit), so "
                    "that its entry point is found"
                )
        return self._engines[drafts]


def _folder(what: str, name: str | Path) -> str:
    """Where a model is: vLLM would look for what is no folder in a hub."""
    from otspec.decode.shipped import FOLDER

    folder = FOLDER / what if name == "shipped" else Path(name)
    if not (folder / "config.json").is_file():
        raise ProblemError(f"{what} = {str(name)!r} is no folder of a model: it has no config.json")
    return str(folder)


def _end(engine: Any) -> None:
    """End the processes of an engine, dead or alive."""
    engine.llm_engine.engine_core.shutdown()


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Variables of the environment for a while; processes that start in it keep them."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _text(output: Any) -> Text:
    """A completion of vLLM's."""
    tokens = tuple(output.token_ids)
    told = output.logprobs
    logprobs = None if told is None else tuple(one[token].logprob for one, token in zip(told, tokens, strict=True))
    return Text(tokens, output.text, logprobs, output.finish_reason or "")
