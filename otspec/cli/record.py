"""`otspec record`: laws of a pair of models along the target's own text, as a file of positions or drafted trees."""

from __future__ import annotations

from dataclasses import dataclass

from otspec.cli import options
from otspec.cli.groups import with_option_groups
from otspec.cli.options import OutFile
from otspec.cli.prompts import PromptOptions
from otspec.cli.sampling import DecodingOptions, PairOptions
from otspec.errors import DataError
from otspec.reporting.console import console, progress_as_ours, progress_bar
from otspec.settings import Count, Seed, Temperature


@dataclass(frozen=True, kw_only=True)
class RecordOptions:
    """What `otspec record` takes."""

    out: OutFile
    """The .safetensors file to write."""
    pair: PairOptions
    text: PromptOptions
    positions: Count = 256
    """How many positions or trees to record, spread over the prompts."""
    paths: Count | None = None
    """How many paths the tree has that is drafted at each position; by default positions alone."""
    depth: Count | None = None
    """How many tokens each path has; by default positions alone."""
    top_k: Count | None = None
    """Store the draft model's k likeliest tokens and the mass of the rest: enough for drafts of top-k k or fewer at
    temperature 1, and for nothing else. For trees: draft from the k likeliest, and store these; by default all
    tokens."""
    rest_at: str = "1"
    """With --top-k, for positions: the temperatures at which the mass of the rest is stored, a list; the positions
    can be solved at these alone."""
    store: str = "float16"
    """The type that laws are stored in: float16, bfloat16 or float32; the file has the error of that."""
    max_new_tokens: Count = 32
    """How many tokens a text has after its prompt, at most."""
    temperature: Temperature = 1.0
    """The temperature of the texts; for trees, that of both models' laws as well."""
    seed: Seed = 0
    """The seed of the texts and of the places in them."""
    batch: Count = 8
    """How many texts of a prompt are written together."""
    place: DecodingOptions


@with_option_groups
@options.holding
def record(request: RecordOptions) -> None:
    """Record the laws of a pair of models in a file, which --data and `otspec solve` read without any model.

    The target goes on with each prompt, and at a random place of that text both models' next-token logits are
    stored.  With --paths and --depth a tree is drafted there, and both models' laws at its nodes are stored: see
    `otspec bench paths`.  The header of the file names their origin: models and fingerprints, prompts, seed, versions;
    and the error of storing.  A run that is killed goes on from OUT.part when the same command is given again.
    """
    options.check_new(request.out)
    if (request.paths is None) != (request.depth is None):
        raise DataError("trees have both --paths and --depth; pass the other one too, or neither to record positions")
    if request.rest_at != "1" and (request.top_k is None or request.paths is not None):
        raise DataError("--rest-at: nothing is left over without --top-k, nor of trees; leave it out")
    prompts = request.text.read(request.pair.target)
    request.pair.check_drafts("laws of two are recorded")
    temperatures = options.numbers_of("--rest-at", request.rest_at, options.checked_temperature)
    from otspec.decode.recording.positions import Recording
    from otspec.decode.recording.positions import record as recorded
    from otspec.decode.recording.trees import TreeRecording

    progress_as_ours()
    request.place.use_threads(request.batch)
    models = request.pair.load(request.place)
    arguments = (
        models,
        request.pair.names,
        request.text.rows(prompts, models, request.max_new_tokens, {"temperature": request.temperature}),
        request.positions,
        request.max_new_tokens,
        request.temperature,
        request.seed,
        request.store,
        request.top_k,
        request.batch,
        temperatures,
    )
    paths, depth = request.paths, request.depth
    recording = Recording(*arguments) if paths is None or depth is None else TreeRecording(*arguments, paths, depth)
    with progress_bar() as bar:
        task = bar.add_task("recording", total=request.positions)
        about = recorded(recording, request.out, lambda rows: bar.advance(task, rows))
    error = about["error_of_storing"]
    whole = "all tokens" if request.top_k is None else f"the {request.top_k} likeliest drafts and the mass of the rest"
    what = "positions" if request.paths is None else f"trees of {request.paths} x {request.depth} tokens, laws"
    message = (
        f"{request.out}: {request.positions} {what} of {whole}, V = {about['vocab']}; one draft is accepted with "
        f"probability {about['acceptance']:.4f}; as {request.store} a law of the target is off by at most "
        f"{error['target_l1_max']:.1e} (L1), of the draft model by {error['draft_l1_max']:.1e}, that acceptance at a "
        f"position by {error['acceptance_max']:.1e}"
    )
    console.print(message, highlight=False, soft_wrap=True)
