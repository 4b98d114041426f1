"""`python -m kullback`: the same command line as `kullback`."""

from kullback.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
