# lit over the pass tests: one .mlir file a pass, of the same name. Run through CTest, or: lit build/release/tests/passes
# SPDX-License-Identifier: Apache-2.0
import os

import lit.formats

config.name = "yaglom passes"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".phi"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.yaglom_binary_dir, "tests", "passes")
config.substitutions.append(("%specs", os.path.join(config.yaglom_source_dir, "examples", "specs")))
config.environment["PATH"] = os.pathsep.join(
    [os.path.join(config.yaglom_binary_dir, "tools"), config.llvm_tools_dir, config.environment["PATH"]]
)
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
