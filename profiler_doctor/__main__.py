"""`python -m profiler_doctor` is the same program as `profiler-doctor`."""

from profiler_doctor.cli import main

if __name__ == "__main__":
    main()
