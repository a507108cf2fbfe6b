"""An engine of vLLM's in a process of its own: `python served_by_vllm.py ORDER ANSWER`, files of JSON both.

It imports nothing of ours: what does so is the entry point of the package.  An order names the `model`, settings of
`LLM` and `jobs`, lists of requests; the answer has the texts of each job, and how many drafts were accepted until then.
"""

import importlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def main(order: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Serve all jobs, one after the other.  (vLLM's workers import this module: nothing runs on import.)"""
    vllm = importlib.import_module("vllm")
    engine = vllm.LLM(order["model"], **order["settings"])

    answers = []
    for job in order["jobs"]:
        results = engine.generate(
            [{"prompt_token_ids": request["prompt"]} for request in job],
            [vllm.SamplingParams(**request["sampling"]) for request in job],
            use_tqdm=False,
        )
        texts = [[list(text.token_ids) for text in one.outputs] for one in results]
        counters = {one.name: getattr(one, "value", None) for one in engine.get_metrics()}
        answers.append({"texts": texts, "accepted": counters.get("vllm:spec_decode_num_accepted_tokens", 0)})
    return answers


def mend() -> None:
    """A plug-in of vLLM's for these tests: what vLLM 0.32 and 0.33 do wrong on a CPU before they verify.

    Without the first whatever verifies has a wrong target law: vLLM's kernel on a CPU drops what it computes, so that
    temperature, top-k and top-p of drafted tokens are whatever was in memory (vllm-project/vllm#55005).  Without the
    second the engine ends where no request of a step has drafts, and one has top-k.
    """
    torch = importlib.import_module("torch")
    sampler: Any = importlib.import_module("vllm.v1.sample.rejection_sampler")
    constrained = sampler.apply_sampling_constraints

    def expand_batch_to_tokens(x: Any, ends: Any, num_tokens: int, replace_from: int = 0, replace_to: int = 0) -> Any:
        counts = torch.diff(ends, prepend=ends.new_zeros(1))
        return torch.where(x == replace_from, replace_to, x).repeat_interleave(counts, output_size=num_tokens)

    sampler.expand_batch_to_tokens = expand_batch_to_tokens
    sampler.apply_sampling_constraints = lambda logits, *rest: (
        logits if len(logits) == 0 else constrained(logits, *rest)
    )


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(main(json.loads(Path(sys.argv[1]).read_text()))))
