import pytest

from sparkwright.common.placed import Place


@pytest.mark.parametrize(
    ("place", "folder", "seat", "user"),
    [
        (Place("/opt/x"), "/opt/x", "", "sparkwright-engine"),
        (Place("/opt/x", "embed"), "/opt/x/seats/embed", "embed", "sparkwright-second"),
        (Place("/opt/x/seats/embed"), "/opt/x/seats/embed", "embed", "sparkwright-second"),
    ],
)
def test_a_place_knows_its_root_and_seat(place: Place, folder: str, seat: str, user: str) -> None:
    assert (place, place.root, place.seat, place.user) == (folder, "/opt/x", seat, user)
    assert place.sockets("r-1") == f"{folder}/sockets/engines/r-1"
    assert place.release("r-1") == "/opt/x/releases/r-1"
    assert place.cache("0") == f"/opt/x/cache/{user}/0"
