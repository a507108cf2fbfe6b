"""`python -m otspec`."""

from otspec.cli import main

if __name__ == "__main__":
    main()
