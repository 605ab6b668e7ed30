"""The one thing that pyproject.toml cannot say: the parts in C, each of which is left out where it cannot be built."""

from pathlib import Path

from setuptools import Extension, setup

NATIVE = Path("native")
SOURCES = {
    "profiler_doctor.analyzer.formats._ktok": NATIVE / "ktok",
    "profiler_doctor.analyzer.measures._nest": NATIVE / "nest.c",
    "profiler_doctor.analyzer.replay._play": NATIVE / "play.c",
}
"""Module → its source, or the folder of its sources. Each does what Python does as well, several times slower."""


def extension(name: str, source: Path) -> Extension:
    """One binary for every Python from 3.11 on; a machine without a compiler goes without it."""
    return Extension(
        name,
        sources=sorted(map(str, source.glob("*.c"))) if source.is_dir() else [str(source)],
        depends=sorted(map(str, source.glob("*.h"))),
        define_macros=[("Py_LIMITED_API", "0x030B0000")],
        py_limited_api=True,
        optional=True,
    )


setup(
    ext_modules=[extension(name, source) for name, source in SOURCES.items()],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
