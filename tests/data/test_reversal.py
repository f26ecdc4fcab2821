"""The reversal task: every second letter, backwards; the same pairs in every process."""

import hashlib

from elman.data.reversal import ALPHABET, LONGEST, SHORTEST, invented_names, reversal_pairs


def test_every_second_letter_of_a_source_backwards_is_its_target() -> None:
    for pair in reversal_pairs(["sophia", "al", "maximilian"]):
        assert pair.source[::2][::-1] == pair.target
        assert len(pair.source) == 2 * len(pair.target)
        assert set(pair.source) <= set(ALPHABET)
    (pair,) = reversal_pairs(["sophia"])
    assert pair.target == "aihpos"


def test_the_noise_depends_on_the_seed_and_is_spread_over_the_alphabet() -> None:
    names = invented_names(500)
    first, again = list(reversal_pairs(names)), list(reversal_pairs(names))
    assert first == again
    other = list(reversal_pairs(names, seed=2))
    assert [pair.target for pair in first] == [pair.target for pair in other]
    assert sum(one != two for one, two in zip(first, other, strict=True)) > 490
    assert {sign for pair in first for sign in pair.source[1::2]} == set(ALPHABET)


def test_invented_names_are_distinct_and_always_the_same() -> None:
    names = invented_names(2000)
    assert len(set(names)) == 2000
    assert {len(name) for name in names} == set(range(SHORTEST, LONGEST + 1))
    digest = hashlib.sha256("\n".join(names).encode()).hexdigest()
    assert digest == hashlib.sha256("\n".join(invented_names(2000)).encode()).hexdigest()
    assert invented_names(3) == names[:3]
