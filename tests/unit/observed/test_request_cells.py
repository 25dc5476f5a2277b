import pytest

from autotune.catalog.registry import find_model
from autotune.observed.observation import Reason
from autotune.observed.refusal import RowRefusedError
from autotune.observed.request_cells import read_request


def _read(model="H3", *, needs_size=True, needs_steps=True, **cells):
    return read_request(find_model(model), cells, needs_size=needs_size, needs_steps=needs_steps)


def _shape(stated):
    workload = stated.workload
    return workload.width, workload.height, workload.frames, workload.steps


@pytest.mark.parametrize(
    ("model", "workload", "steps", "shape"),
    [
        ("H3", "1344x768, 124 f (5 s)", "50", (1344, 768, 124, 50)),
        ("H3", "864x480 124f (per #35816)", "20 NFE", (864, 480, 124, 21)),
        ("H3", "1344x768 5 s t2va", "50 (49 updates)", (1344, 768, 124, 50)),
        ("H3", "768p 4 s", "11 (12 sigma)", (1344, 768, 107, 12)),
        ("H3", "480p 124f", "7 evals", (864, 480, 124, 8)),
        ("H3", "1344 x 768 124 frames", "50 (49)", (1344, 768, 124, 50)),
        ("Wan2.2-T2V-A14B", "832x480 17f", "4", (832, 480, 17, 4)),
        ("Wan2.2-T2V-A14B", "832x480 17f", "8 NFE", (832, 480, 17, 8)),
        ("Qwen-Image", "(not visible; default is 1024x1024/50 steps - assumption)", "", (1024, 1024, 1, 50)),
        ("Qwen-Image", "default", "", (1024, 1024, 1, 50)),
        ("Z-Image-Turbo", "", "H3 50, Wan-14B 30", (1024, 1024, 1, 9)),
        ("H3", "1344x768 124f", "H3 30, Wan-14B 40", (1344, 768, 124, 30)),
    ],
)
def test_request_is_read_from_words(model, workload, steps, shape):
    assert _shape(_read(model, workload=workload, steps=steps)) == shape


def test_columns_of_their_own_beat_the_words():
    stated = _read(workload="1344x768 124f", width="864", height="480", frames="107", steps="50")
    assert _shape(stated) == (864, 480, 107, 50)


def test_what_is_not_stated_is_listed():
    stated = _read(workload="1344x768")
    assert "124 frames, 50 steps, 512 prompt tokens" in stated.assumed[-1]
    assert "the table says" in _read("Qwen-Image", workload="1024x1024 - assumption").assumed[0]


@pytest.mark.parametrize("workload", ["", "(short request)", "load only", "8-step job", "360p"])
def test_video_of_unknown_size_is_refused_where_the_size_matters(workload):
    with pytest.raises(RowRefusedError, match="names no size") as caught:
        _read(workload=workload)
    assert caught.value.reason is Reason.NO_WORKLOAD
    assert _shape(_read(workload=workload, needs_size=False))[:2] == (1344, 768)


def test_table_without_the_column_means_the_default_request():
    assert _shape(_read(steps="50")) == (1344, 768, 124, 50)


def test_steps_are_those_of_the_default_where_they_do_not_matter():
    stated = _read(workload="864x480 124f", steps="1", needs_steps=False)
    assert stated.workload.steps == 50
    assert "steps" not in stated.assumed[-1]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"workload": "640x360 then 1280x720"}, "one request has one size"),
        ({"workload": "1344x768", "steps": "10 of 49 run"}, "one number of steps"),
        ({"workload": "1344x768", "steps": "8 + 3"}, "one number of steps"),
        ({"workload": "1344x768", "steps": "8 to 49"}, "one number of steps"),
        ({"workload": "1376x768 124f"}, "no canvas of MiniMax-H3"),
        ({"workload": "1344x768 20000f"}, "no such request"),
        ({"width": "1344"}, "height is ''"),
    ],
)
def test_request_that_cannot_be_run_is_refused(cells, message):
    with pytest.raises(RowRefusedError, match=message):
        _read(**cells)


def test_request_that_begins_from_pictures_says_so():
    assert "first-frame" in _read(workload="1344x768 124 f first-frame").caveats[0]
    assert not _read(workload="1344x768 124f T2VA").caveats
