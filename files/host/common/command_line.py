"""The command line of a program that takes words alone."""

import argparse


def words(description: str | None, *names: str, rest: str = "") -> list[str]:
    """Return the words after a program's name; end with its description for --help.

    `names` say what the words stand for, and `rest` what any number of further ones do.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in names:
        parser.add_argument(name)
    if rest:
        parser.add_argument(rest, nargs="*")
    values = vars(parser.parse_args())
    return [*(values[name] for name in names), *values.get(rest, ())]
