"""The one thing pyproject.toml cannot say: the compiled twins are built where a compiler is, and only there."""

from __future__ import annotations

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

try:
    from Cython.Build import cythonize
except ImportError:  # the pure-Python twins do the same
    extensions = []
else:
    extensions = cythonize(
        [Extension("cometmq._compiled", ["src/cometmq/_compiled.pyx"])], build_dir="build", quiet=True
    )
    for extension in extensions:
        extension.optional = True  # here, for cythonize forgets it


class BuildWherePossible(build_ext):
    """Goes on without the extension, whatever the compiler says; a missing one is no error that `optional` knows."""

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except Exception as failed:
            self.warn(f"{ext.name} was not built ({failed}); its pure-Python twin will run, which is slower")


setup(ext_modules=extensions, cmdclass={"build_ext": BuildWherePossible})
