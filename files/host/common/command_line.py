"""The command line of a program that takes words alone."""

import argparse


def words(description: str | None, *names: str, rest: str = "") -> list[str]:
    """Return the words after a program's name; end with its description for --help.

    Args:
        description: of the program; its module's docstring.
        names: what each word stands for.
        rest: what any number of further words stand for; "" for none.
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
