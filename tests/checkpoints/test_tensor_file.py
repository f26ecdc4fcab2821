"""A tensor file gives back what was written, or says in one line that it cannot."""

import hashlib
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from elman.checkpoints.json_values import exact_json, readable_json, value_of_exact_json
from elman.checkpoints.schema import SCHEMA_VERSION
from elman.checkpoints.tensor_file import (
    HEADER_KEY,
    read_tensor_file,
    read_tensor_header,
    write_tensor_file,
)
from elman.errors import RunError

FACTS: dict[str, object] = {
    "update": 7,
    "best": math.inf,
    "least": -math.inf,
    "nothing": None,
    "rate": 0.1 + 0.2,
    "tiny": 5e-324,
    "big": 2**200,
    "flag": True,
    "text": "é\n\ud800\x00",
    "list": [1, [2.5, {"deep": -0.0}]],
}


def sample_tensors() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(3)
    return {
        "matrix": torch.randn(4, 6, generator=generator),
        "double": torch.randn(3, generator=generator, dtype=torch.float64),
        "half": torch.randn(5, generator=generator).to(torch.bfloat16),
        "bytes": torch.arange(9, dtype=torch.uint8),
        "scalar": torch.tensor(41),
        "flags": torch.tensor([True, False]),
        "empty": torch.zeros(0, 3),
        "special": torch.tensor([math.nan, math.inf, -0.0]),
    }


def write_sample(path: Path) -> bytes:
    write_tensor_file(path, "weights", sample_tensors(), FACTS)
    return path.read_bytes()


def read_and_verify(path: Path) -> None:
    read_tensor_header(path, "weights")
    read_tensor_file(path, "weights").verify()


def test_tensors_and_facts_come_back_to_the_bit(tmp_path: Path) -> None:
    write_sample(tmp_path / "f")
    file = read_tensor_file(tmp_path / "f", "weights")
    file.verify()
    assert file.facts == FACTS
    assert math.copysign(1, file.facts["list"][1][1]["deep"]) == -1  # type: ignore[index]
    tensors = sample_tensors()
    assert file.tensors.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert file.tensors[name].dtype == tensor.dtype
        assert file.tensors[name].shape == tensor.shape
        read, given = file.tensors[name].reshape(-1), tensor.reshape(-1)
        assert read.view(torch.uint8).equal(given.view(torch.uint8))


def test_strided_and_overlapping_tensors_are_written_each_on_its_own(tmp_path: Path) -> None:
    base = torch.arange(12.0).reshape(3, 4)
    given = {"whole": base, "turned": base.T, "row": base[1], "again": base}
    write_tensor_file(tmp_path / "f", "weights", given, {})
    read = read_tensor_file(tmp_path / "f", "weights").tensors
    assert all(read[name].equal(tensor) for name, tensor in given.items())
    read["whole"].zero_()
    assert read["again"].equal(base)


def test_equal_contents_are_equal_bytes_in_every_process(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[2]); from pathlib import Path\n"
        "from test_tensor_file import write_sample; write_sample(Path(sys.argv[1]))"
    )
    digests = set()
    for seed in ("1", "2"):
        path = tmp_path / seed
        subprocess.run(
            [sys.executable, "-c", code, str(path), str(Path(__file__).parent)],
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        )
        digests.add(hashlib.sha256(path.read_bytes()).hexdigest())
    write_sample(tmp_path / "here")
    digests.add(hashlib.sha256((tmp_path / "here").read_bytes()).hexdigest())
    assert len(digests) == 1


def test_the_file_is_an_ordinary_safetensors_file(tmp_path: Path) -> None:
    write_sample(tmp_path / "f")
    assert load_file(tmp_path / "f")["matrix"].equal(sample_tensors()["matrix"])


def test_a_file_cut_anywhere_is_one_line(tmp_path: Path) -> None:
    content = write_sample(tmp_path / "f")
    path = tmp_path / "cut"
    lengths = {*range(0, len(content), 64), 1, 7, 8, 9, len(content) - 1}
    for length in sorted(lengths):
        path.write_bytes(content[:length])
        for read in (read_tensor_header, read_tensor_file):
            with pytest.raises(RunError, match=r"cut short or was altered") as caught:
                read(path, "weights")
            assert "\n" not in str(caught.value)


def test_no_flipped_bit_goes_unseen(tmp_path: Path) -> None:
    content = write_sample(tmp_path / "f")
    path = tmp_path / "flipped"
    for position in range(len(content)):
        flipped = bytearray(content)
        flipped[position] ^= 1 << (position % 8)
        path.write_bytes(flipped)
        with pytest.raises(RunError) as caught:
            read_and_verify(path)
        assert "\n" not in str(caught.value)


def test_bytes_after_the_end_are_seen(tmp_path: Path) -> None:
    content = write_sample(tmp_path / "f")
    (tmp_path / "f").write_bytes(content + b"\0")
    with pytest.raises(RunError):
        read_and_verify(tmp_path / "f")


def rewrite_header(path: Path, key: str, value: object) -> None:
    """Write the file again, by the library alone, with one entry of its header changed."""
    header = read_tensor_header(path, "weights")
    table = {
        "content": "weights",
        "digest": header.digest,
        "facts": header.facts,
        "schema_version": SCHEMA_VERSION,
        key: value,
    }
    tensors = load_file(path)
    save_file(tensors, path, {HEADER_KEY: exact_json(table)})


@pytest.mark.parametrize(
    ("key", "value", "part"),
    [
        ("schema_version", SCHEMA_VERSION + 1, f"got schema version {SCHEMA_VERSION + 1}; allow"),
        ("schema_version", 0, "the file was altered"),
        ("schema_version", "x", "the file was altered"),
        ("content", "training state", "does not hold weights; got training state"),
        ("facts", {}, "was altered after it was written"),
        ("digest", "0" * 64, "was altered after it was written"),
        ("digest", 3, "a header without facts and digest"),
        ("facts", [], "a header without facts and digest"),
    ],
)
def test_a_changed_header_is_seen(tmp_path: Path, key: str, value: object, part: str) -> None:
    write_sample(tmp_path / "f")
    rewrite_header(tmp_path / "f", key, value)
    with pytest.raises(RunError) as caught:
        read_and_verify(tmp_path / "f")
    assert part in str(caught.value)


def test_the_file_of_another_program_is_named_as_such(tmp_path: Path) -> None:
    save_file({"w": torch.ones(2)}, tmp_path / "f", {"format": "pt"})
    with pytest.raises(RunError, match="was not written by elman"):
        read_and_verify(tmp_path / "f")
    save_file({"w": torch.ones(2)}, tmp_path / "f", {HEADER_KEY: "[" * 100_000})
    with pytest.raises(RunError, match="cut short or was altered"):
        read_and_verify(tmp_path / "f")


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    for read in (read_tensor_header, read_tensor_file):
        with pytest.raises(RunError, match="cannot read"):
            read(tmp_path / "absent", "weights")


def test_facts_that_would_not_come_back_are_refused() -> None:
    for value in ({1: 2}, {"$float": "nan"}, {1, 2}, b"x", object()):
        with pytest.raises(TypeError):
            exact_json(value)
    assert value_of_exact_json(exact_json((1, (2,)))) == [1, [2]]
    undefined = value_of_exact_json(exact_json({"x": math.nan}))
    assert isinstance(undefined, dict)
    assert math.isnan(undefined["x"])


def test_readable_json_has_null_beside_a_flag() -> None:
    text = readable_json({"a": math.inf, "b": math.nan, "c": [math.inf, 1.5], "d": "é\udc80"})
    strict = json.loads(text.encode(), parse_constant=lambda name: pytest.fail(name))
    assert strict == {
        "a": None,
        "a_is_infinite": True,
        "b": None,
        "b_is_nan": True,
        "c": [None, 1.5],
        "d": "é\udc80",
    }
