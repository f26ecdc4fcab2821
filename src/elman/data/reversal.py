"""The reversal task: a name interleaved with random letters, to be reversed without the noise.

    sophia → suorpxhziwaq → aihpos

Behind each letter of a name comes a random one; source and target differ in length and in order,
and what is to be copied must be told from what is to be left out by its place alone.
"""

from collections.abc import Iterable, Iterator

import torch

from elman.data.pairs import TextPair
from elman.seeding import generator

ALPHABET = "abcdefghijklmnopqrstuvwxyz"
NUM_NAMES = 20_000
SHORTEST, LONGEST = 3, 12


def invented_names(num_names: int = NUM_NAMES, *, seed: int = 1) -> list[str]:
    """Return distinct random words of 3 to 12 letters, of consonants and vowels in turn mostly."""
    draw = generator(seed, "sampling")
    vowels, others = "aeiou", "bcdfghjklmnpqrstvwxyz"
    names: dict[str, None] = {}
    while len(names) < num_names:
        length = int(torch.randint(SHORTEST, LONGEST + 1, (1,), generator=draw))
        numbers = torch.randint(0, 2**31 - 1, (length + 1,), generator=draw).tolist()
        letters = []
        for place in range(length):
            kind = others if (place + numbers[length]) % 2 else vowels
            kind = ALPHABET if numbers[place] % 5 == 0 else kind
            letters.append(kind[numbers[place] // 5 % len(kind)])
        names["".join(letters)] = None
    return list(names)


def reversal_pairs(names: Iterable[str], *, seed: int = 1) -> Iterator[TextPair]:
    """Yield for each name the pair of its letters, a random one behind each, and its reverse.

    A pure function of the names, in their order, and of `seed`.
    """
    draw = generator(seed, "order")
    for number, name in enumerate(names, 1):
        noise = torch.randint(0, len(ALPHABET), (len(name),), generator=draw).tolist()
        source = "".join(
            letter + ALPHABET[place] for letter, place in zip(name, noise, strict=True)
        )
        yield TextPair(source, name[::-1], number)
