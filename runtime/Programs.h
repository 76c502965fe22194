// Built programs by their key: from the cache on disk, or compiled and kept there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/Program.h"
#include "runtime/cache/Entry.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace yaglom::runtime {

/// What a program of `kind` ("forward", "backward" ...) of an attention depends on: the canonical text of the spec, dims,
/// options, the processor with its features or the GPU's architecture, and this build of yaglom and LLVM. Flipping any one
/// changes the key; batch, heads and length are in none. `more` is what it depends on besides.
cache::Key programKey(std::string_view kind, const Spec &spec, const Instance &instance, const CompileOptions &options,
                      std::string_view more = {});

/// The kind of gradients, from kept states unless `keeps` is Nothing.
std::string_view backwardKind(compiler::Keeps keeps);

/// The program of `key`, ready to launch: read from disk without running any of the compiler, or made by `build` and stored.
/// Of several processes that ask for one key at a time, one compiles. P is Program, BackwardProgram or LossProgram.
template <typename P>
Result<std::shared_ptr<const P>> obtain(const cache::Key &key, const std::function<Result<P>()> &build);

/// The same for any bytes: a cubin.
Result<std::string> obtainBytes(const cache::Key &key, const std::function<Result<std::string>()> &make);

} // namespace yaglom::runtime
