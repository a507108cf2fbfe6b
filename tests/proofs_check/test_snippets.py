"""The code of the notes in numpy does what it does in torch, errors included."""

from typing import Any

import numpy as np
import pytest

from otspec.proofs_check.notes.snippets import find_candidate_pred_tokens


def as_printed(torch: Any, input_ids: Any, max_ngram_size: int = 3, num_pred_tokens: int = 10) -> Any:
    """The function in torch, line by line [aarnphm2025speculative, 'ngrams']."""
    input_length = input_ids.size(1)
    for ngram_size in range(max_ngram_size, 0, -1):
        ngram = input_ids[0, -ngram_size:].tolist()
        windows = input_ids.unfold(dimension=1, size=ngram_size, step=1)
        ngram_tensor = torch.tensor(ngram, device=input_ids.device).unsqueeze(0)
        matches = (windows == ngram_tensor).all(dim=2)
        match_indices = matches.nonzero(as_tuple=True)[1]
        for idx in match_indices:
            start_idx = idx + ngram_size
            end_idx = start_idx + num_pred_tokens
            if end_idx <= input_length and start_idx < input_length - ngram_size:
                return input_ids[0, start_idx:end_idx]
    return torch.tensor([], dtype=torch.long, device=input_ids.device)


def test_prompt_lookup_is_that_of_torch() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    raised = 0
    for _ in range(300):
        prompt, count = rng.integers(0, 3, rng.integers(1, 25)), int(rng.integers(1, 11))
        try:
            expected = as_printed(torch, torch.from_numpy(prompt)[None], 3, count).tolist()
        except RuntimeError:
            raised += 1
            with pytest.raises(ValueError, match="window"):
                find_candidate_pred_tokens(prompt, 3, count)
        else:
            assert find_candidate_pred_tokens(prompt, 3, count).tolist() == expected
    assert 0 < raised < 300
