"""OpenVINO GenAI in this process, batching continuously, with a draft model, with prompt lookup or with neither."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from otspec.engine_audit.adapters.seeding import request_seeds
from otspec.engine_audit.engine import Acceptance, EngineDied, Sampling, Text, one_line
from otspec.errors import ProblemError
from otspec.extras import require

MODEL = "openvino_model.xml"
LOOKUP = 3
"""Tokens of the n-grams that prompt lookup goes by, at most."""


class OpenVino:
    """Two pipelines of OpenVINO GenAI, each started when it is needed.

    Parameters
    ----------
    target : path
        Folder of the target model, as OpenVINO has it (`MODEL`).
    draft : path, optional
        Folder of the draft model.  Without one, drafts are looked up in the text.
    drafts : int
        Tokens that are drafted at a time.
    device : str
        Where both run.
    cache : int
        GB for the keys and values of a pipeline.
    properties : mapping, optional
        Of the device, such as ``{"INFERENCE_PRECISION_HINT": "f32"}``.

    Raises
    ------
    MissingExtra
        If OpenVINO GenAI is not installed.
    ProblemError
        If there is no such folder, or a setting is out of its range.
    """

    name = "openvino"

    def __init__(
        self,
        *,
        target: str | Path,
        draft: str | Path | None = None,
        drafts: int = 3,
        device: str = "CPU",
        cache: int = 1,
        properties: Mapping[str, Any] | None = None,
    ) -> None:
        for name, value in (("drafts", drafts), ("cache", cache)):
            if value < 1:
                raise ProblemError(f"{name} = {value}; it is at least 1")
        for what, folder in (("target", target), ("draft", draft)):
            if folder is not None and not (Path(folder) / MODEL).is_file():
                raise ProblemError(
                    f"{what} = {str(folder)!r} has no {MODEL}: optimum-cli export openvino writes it, and "
                    "LLMPipeline(file, device, enable_save_ov_model=True) from a GGUF file"
                )
        self._genai = require("openvino_genai")
        self.version = str(self._genai.get_version())
        self.method = f"{'prompt lookup' if draft is None else 'draft model'}, {drafts} at a time"
        self._target, self._draft, self._drafts = str(target), draft, drafts
        self._device, self._cache, self._properties = device, cache, dict(properties or {})
        self._pipelines: dict[bool, Any] = {}
        self._passes = self._drafted = self._accepted = 0

    def texts(self, prompt: str, count: int, length: int, sampling: Sampling, seed: int, *, drafts: bool) -> list[Text]:
        """Independent completions, as one batch: see `otspec.engine_audit.Engine`.

        The prompt is encoded beforehand, since OpenVINO would put strings into the model's chat template.  Each request
        has a seed of its own: those of one configuration are all the same text.

        Raises
        ------
        EngineDied
            If OpenVINO does not start, or fails.
        """
        pipeline = self._pipeline(drafts)
        tokenizer = pipeline.get_tokenizer()
        seeds = request_seeds(seed, count, drafts=drafts)
        configs = [self._config(sampling, length, one, tokenizer.get_eos_token_id(), drafts) for one in seeds]
        try:
            found = pipeline.generate([tokenizer.encode(prompt).input_ids] * count, configs)
        except Exception as error:
            self._pipelines.pop(drafts)
            request = f"the request for {count} texts of {prompt!r}, seed {seed}"
            raise EngineDied(f"OpenVINO died at {request}: {one_line(error)}") from error
        if drafts and found:
            self._count(found[0].extended_perf_metrics)
        tokens = [one.m_generation_ids[0] for one in found]
        texts = tokenizer.decode(tokens) if tokens else []
        ended = [str(one.finish_reasons[0].name).lower() for one in found]
        return [Text(tuple(row), text, None, end) for row, text, end in zip(tokens, texts, ended, strict=True)]

    def acceptance(self) -> Acceptance | None:
        """What the pipeline counts, where a draft model drafts; its passes are those of whole batches."""
        return Acceptance(self._passes, self._drafted, self._accepted) if self._drafted else None

    def close(self) -> None:
        """Let go of both pipelines."""
        self._pipelines.clear()

    def _pipeline(self, drafts: bool) -> Any:
        if drafts not in self._pipelines:
            scheduler = self._genai.SchedulerConfig()
            scheduler.cache_size = self._cache
            scheduler.enable_prefix_caching = False
            more = dict(self._properties)
            if drafts and self._draft is None:
                more["prompt_lookup"] = True
            elif drafts:
                more["draft_model"] = self._genai.draft_model(str(self._draft), self._device)
            try:
                made = self._genai.ContinuousBatchingPipeline(self._target, scheduler, self._device, more)
            except Exception as error:
                how = self.method if drafts else "no drafts"
                raise EngineDied(f"OpenVINO does not start with {how}: {one_line(error)}") from error
            self._pipelines[drafts] = made
        return self._pipelines[drafts]

    def _config(self, sampling: Sampling, length: int, seed: int, end: int, drafts: bool) -> Any:
        config = self._genai.GenerationConfig(max_new_tokens=length, do_sample=not sampling.greedy, rng_seed=seed)
        config.set_eos_token_id(end)
        if not sampling.greedy:
            config.temperature = sampling.temperature
            for name in ("top_k", "top_p", "min_p"):
                if value := getattr(sampling, name):
                    setattr(config, name, value)
        if drafts:
            config.num_assistant_tokens = self._drafts
            if self._draft is None:
                config.max_ngram_size = LOOKUP
        return config

    def _count(self, metrics: Any) -> None:
        """Add what a batch's metrics say of its drafts; all its requests have the same."""
        if metrics is None:
            return
        self._drafted += int(metrics.get_num_draft_tokens())
        self._accepted += int(metrics.get_num_accepted_tokens())
        self._passes += len(metrics.main_model_metrics.raw_metrics.m_durations)
