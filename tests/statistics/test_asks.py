"""What a server may ask for: read strictly, and of nothing but the study's own statistics."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codedfl.contract.study import Study
from codedfl.data.columns import CategoryColumn, ClassTarget, NumberColumn, NumberTarget
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.privacy.budget import Budget
from codedfl.statistics.products import Products
from codedfl.statistics.statistic import STATISTICS, Ask, Statistic, register_statistic, statistic_of, words_of
from wording import exactly

COLUMNS = (
    NumberColumn("age", (0.0, 120.0), 1.0),
    NumberColumn("crp", (0.0, 500.0), 0.1, missing=2.0),
    CategoryColumn("ward", ("a", "b", "c", "d")),
)
ILL = ClassTarget("ill", ("no", "yes"))
LINEAR = Study("s", COLUMNS, ILL, 1000, 300, 3)
KERNEL = Study(
    "s", COLUMNS, NumberTarget("y", (0.0, 1.0), 2.0**-16), 1000, 300, 3, features="pca-rbf", components=2, n_features=9
)
WIDTH = 6  # age, crp, its mark, three levels


def principal(centre: float = 0.5) -> np.ndarray:
    return np.concatenate((np.full(WIDTH, centre), np.eye(WIDTH)[:, :2].ravel()))


@pytest.mark.parametrize(
    ("study", "ask"),
    [
        (LINEAR, Ask("cells")),
        (LINEAR, Ask("gram")),
        (LINEAR, Ask("gram", ((), (0,), (1, 2), (), ()))),
        (LINEAR, Ask("gram", ((1,), (), (), (), ()))),
        (LINEAR, Ask("score", (), np.linspace(-1, 1, 2 * (1 + WIDTH)))),
        (LINEAR, Ask("score", ((), (0,), (1, 2), (), ()), np.zeros(2 * WIDTH - 2))),
        (KERNEL, Ask("products", (), principal())),
        (KERNEL, Ask("score", (), np.append(principal(), np.ones(9)))),
    ],
    ids=repr,
)
def test_an_ask_comes_back_as_it_was(study: Study, ask: Ask):
    found = Ask.decode(ask.encode(), study)
    assert found == ask and hash(found) == hash(ask)
    assert found.digest(study) == ask.digest(study) != ask.digest(LINEAR if study is KERNEL else KERNEL)
    assert np.array_equal(found.point, ask.point)


def refused(data: bytes, study: Study, message: str) -> None:
    with pytest.raises(MessageRefused, match=message):
        Ask.decode(data, study)


@pytest.mark.parametrize(
    ("study", "ask", "message"),
    [
        (LINEAR, Ask("products"), r"^an ask must be for census or cells or gram or score here, got 'products'$"),
        (LINEAR, Ask("x" * 99), rf"got '{'x' * 40}'$"),
        (LINEAR, Ask("gram", ((), ())), r"^merged must have a list for each of 3 columns and two, or none$"),
        (LINEAR, Ask("gram", ((), (), ())), r"^merged must have a list for each of 3 columns and two, or none$"),
        (LINEAR, Ask("gram", ((0,), (), (), (), ())), r"^merged must be ascending places of column 'age', got others$"),
        (LINEAR, Ask("gram", ((), (2,), (), (), ())), r"^merged must be ascending places of column 'crp', got others$"),
        (
            LINEAR,
            Ask("gram", ((), (), (4,), (), ())),
            r"^merged must be ascending places of column 'ward', got others$",
        ),
        (
            LINEAR,
            Ask("gram", ((), (), (2, 1), (), ())),
            r"^merged must be ascending places of column 'ward', got others$",
        ),
        (
            LINEAR,
            Ask("gram", ((), (), (-1,), (), ())),
            r"^merged must be ascending places of column 'ward', got others$",
        ),
        (
            LINEAR,
            Ask("gram", ((1,), (1,), (0, 1, 2, 3), (), ())),
            r"^an ask must fit the study: columns must be at least one",
        ),
        (
            LINEAR,
            Ask("gram", (), np.zeros(1)),
            r"^an ask must fit the study: the point of gram must be 0 finite numbers",
        ),
        (LINEAR, Ask("score"), r"^an ask must fit the study: the point of score must be 14 finite numbers"),
        (LINEAR, Ask("score", (), np.full(14, np.nan)), r"the point of score must be 14 finite numbers"),
        (
            LINEAR,
            Ask("score", (), np.zeros(10**6)),
            r"^an ask must have at most \d+ bytes in this study, got 80000\d\d$",
        ),
        (KERNEL, Ask("products", (), principal(1.5)), r"the centre must lie within the ranges of the columns"),
        (KERNEL, Ask("products", (), 1.01 * principal(0.2)), r"components must be orthonormal to 1e-06, got ones that"),
        (KERNEL, Ask("products"), r"the point of products must be 18 finite numbers"),
    ],
)
def test_others_are_refused(study: Study, ask: Ask, message: str):
    refused(ask.encode(), study, message)


def test_there_is_one_encoding():
    fields = ["codedfl ask 5", "gram", 1, [[], [], [1], [], []], b"", "", [], b""]
    encode = msgspec.msgpack.encode
    assert Ask.decode(encode(fields), LINEAR).merged == ((), (), (1,), (), ())
    refused(encode(fields) + b"\x00", LINEAR, "must have its fields")
    long_form = encode(fields).replace(b"\x91\x01", b"\x91\xcc\x01")
    refused(long_form, LINEAR, "one way there is")
    for place, wrong in (
        (0, "codedfl ask 2"),
        (1, 3),
        (2, 2),
        (3, [[], [], [True], [], []]),
        (3, [[], [], 1]),
        (4, b"1234"),
        (4, 7),
        (5, "m"),
        (6, [1, 0]),
        (6, [-1]),
        (7, b"1"),
        (3, [[], [], [1], [0], []]),
        (3, [[], [], [1], [], [3]]),
    ):
        changed = [*fields[:place], wrong, *fields[place + 1 :]]
        refused(encode(changed), LINEAR, "must")
    minus_zero = ["codedfl ask 5", "score", 1, [], np.full(14, -0.0).tobytes(), "", [], b""]
    refused(encode(minus_zero), LINEAR, "one way there is")


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_asks_are_refused_in_one_line(data: st.DataObject):
    study, ask = data.draw(
        st.sampled_from(
            [
                (LINEAR, Ask("gram", ((), (0,), (1, 2), (), ()))),
                (KERNEL, Ask("products", (), principal())),
                (LINEAR, Ask("cells")),
            ]
        )
    )
    encoded = bytearray(ask.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(encoded) - 1))
        match data.draw(st.sampled_from(["change", "cut", "insert"])):
            case "change":
                encoded[place] = data.draw(st.integers(0, 255))
            case "cut":
                del encoded[place + 1 :]
            case "insert":
                encoded[place:place] = data.draw(st.binary(max_size=9))
    try:
        found = Ask.decode(bytes(encoded), study)
    except MessageRefused as error:
        assert "\n" not in str(error) and len(str(error)) < 400  # noqa: PT017 (others are as good)
    else:
        assert found.encode() == bytes(encoded)  # another meaning, said in its one way
        assert found.statistic in study.statistics


@given(st.binary(max_size=200))
def test_noise_is_refused(data: bytes):
    with pytest.raises(MessageRefused):
        Ask.decode(data, LINEAR)


def test_with_noise_only_products_are_asked_for():
    columns = tuple(replace(one, scale="range") for one in COLUMNS[:2])
    noisy = Study("s", columns, ILL, 1000, 300, 3, held_out=0.0, noise=Budget(1.0, 3))
    refused(Ask("cells").encode(), noisy, r"^an ask must be for products here, got 'cells'$")
    assert Ask.decode(Ask("products").encode(), noisy) == Ask("products")
    with pytest.raises(InvalidInput, match=r"^gram must be left out with noise: the sums of products are exact"):
        statistic_of(noisy, Ask("gram"))


def test_every_statistic_says_what_it_shows():
    for name, kind in STATISTICS.items():
        leaves = kind.leaves(KERNEL)
        assert kind.name == name and leaves[0].islower() and kind.shows.endswith(".")
        assert bool(kind.no_noise) == (name != "products")
        assert all("\n" not in text and text.isprintable() for text in (leaves, kind.shows, kind.no_noise))
    assert list(words_of(LINEAR)) == ["census", "cells", "gram", "score"]
    assert "over the rows held out" in words_of(replace(LINEAR, target=KERNEL.target))["gram"][0]
    assert "over the rows held out" not in words_of(LINEAR)["gram"][0]


def test_names_are_new_and_known():
    with pytest.raises(InvalidInput, match=exactly("the name of a statistic must be new, got 'cells' again")):
        register_statistic(STATISTICS["cells"])
    names = " or ".join(sorted(STATISTICS))
    with pytest.raises(InvalidInput, match=exactly(f"a statistic must be {names}, got 'mean'")):
        statistic_of(LINEAR, Ask("mean"))


def test_products_are_a_vector_with_a_matrix_behind_it():
    products: Statistic = Products(KERNEL, principal())
    assert products.length == 10  # X'Y of nine features, and how many rows
    layout = products.layout(5)
    assert (layout.size, layout.columns, layout.vector_words) == (9, 1, 10)
    with pytest.raises(InvalidInput, match=r"^products must be answered epoch by epoch"):
        products.vector(None)
