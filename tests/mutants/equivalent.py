"""Changes that change nothing that anybody could notice, each with the reason."""

# (path, before, after) -> why
EQUIVALENT: dict[tuple[str, str, str], str] = {
    (
        "sparkwright/plan/release/token.py",
        "return False",
        "return None",
    ): "it is only asked whether it is so",
}
