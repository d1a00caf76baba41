"""The command line of a program, and its words about itself where somebody asks."""

import argparse


def words(description: str | None, *names: str, rest: str = "") -> list[str]:
    """Return the words after a program's name; end with its description for --help.

    Args:
        description: of the program; its module's own.
        names: what each word is.
        rest: what any number of further words are; "" for none.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in names:
        parser.add_argument(name)
    if rest:
        parser.add_argument(rest, nargs="*")
    told = vars(parser.parse_args())
    return [*(told[name] for name in names), *told.get(rest, ())]
