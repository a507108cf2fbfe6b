"""Record next-token logits of the shipped pair: the data profile ``shipped``.

    python -m benchmarks.shipped_pair.record

Every position follows a prompt of held-out text and 1 to 32 tokens that the target has sampled from there, as in
decoding.  Prompts are the beginnings of the sequences in held_out.npz, at four lengths each; the number of sampled
tokens is uniform, and smaller where the target ended the text.  Writes the package's own files unless told otherwise.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from otspec.data import RECORDED
from otspec.decode.recording.positions import own_logits
from otspec.decode.shipped import FOLDER, HELD_OUT_ROWS, TRAINING, load
from otspec.extras import require

PROMPTS = (64, 112, 160, 208)
"""Lengths of the prompts, bos included."""
CONTINUATION = 32
"""Tokens that the target samples after a prompt, at most; with the longest prompt they fit the models' context."""


def main(
    out: Annotated[Path, typer.Option(help="The .npz file to write.")] = RECORDED["shipped"],
    folder: Annotated[Path, typer.Option(help="Where the pair is; its training.json gets the figures.")] = FOLDER,
    seed: Annotated[int, typer.Option(help="Of the continuations and the positions.")] = 0,
) -> None:
    """Write logits of target and draft in float16, less their maximum, as `otspec.data.FileSource` reads them."""
    torch = require("torch")
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    target, draft, _ = load(folder=folder)
    held_out = np.load(folder / HELD_OUT_ROWS)["rows"].astype(np.int64)
    recorded: list[Any] = []
    with torch.inference_mode():
        for length in PROMPTS:
            prompts = torch.from_numpy(held_out[:, :length])
            recorded.append(own_logits(target, draft, prompts, CONTINUATION, rng))
    p, q = (torch.cat(logits) for logits in zip(*recorded, strict=True))
    arrays = [(logits - logits.max(1, keepdim=True).values).half().numpy() for logits in (p, q)]
    np.savez_compressed(out, target_logits=arrays[0], draft_logits=arrays[1])

    record = json.loads((folder / TRAINING).read_text())
    record["profile"] = {
        "seed": seed,
        "positions": len(p),
        "acceptance": torch.minimum(p.softmax(1), q.softmax(1)).sum(1).mean().item(),
    }
    (folder / TRAINING).write_text(json.dumps(record, indent=2) + "\n")
    typer.echo(f"{out}: {len(p)} positions, single-draft acceptance {record['profile']['acceptance']:.4f}")


if __name__ == "__main__":
    typer.run(main)
