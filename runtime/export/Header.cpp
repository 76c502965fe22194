// NAME.h and NAMEConfig.cmake of an export.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/export/Interface.h"

#include "compiler/targets/nvgpu/KernelAbi.h"
#include "runtime/SumKernels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace yaglom::exporting {
namespace {

/// What every header begins with; NAME_ is the prefix, and @...@ is filled in.
constexpr const char *kBegin = R"(/* @WRITER@: @ORIGIN@.

   B is the batch, H the number of heads, N the number of queries@KEYS@. They, and the distances of batches, heads
   and rows, may be others at every call. No function keeps anything between two calls, prints, or starts threads: all may be
   called from several threads at a time. Files: docs/export.md of yaglom. */
#ifndef YAGLOM_EXPORT_NAME_H
#define YAGLOM_EXPORT_NAME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** An element of inputs, outputs and their gradients@ELEMENT_NOTE@. */
typedef @ELEMENT@ NAME_element;
/** An element of parameters, draws and their gradients. */
typedef @NUMBER@ NAME_number;

/** What functions return. */
enum NAME_status {
  NAME_OK = 0,    /**< all is done */
  NAME_NULL,      /**< a pointer is null */
  NAME_SHAPE,     /**< a tensor has another shape than expected, or more elements than memory can hold */
  NAME_STRIDE,    /**< a stride is negative, or rows of an output overlap */
  NAME_ALIGNMENT, /**< data is not aligned to its elements */
  NAME_SCRATCH,   /**< the scratch memory is too small */
  NAME_MEMORY,    /**< scratch could not be allocated */
  NAME_PROCESSOR, /**< no exported version runs on this processor */
  NAME_WORKER     /**< parallel_for called a worker that there is not; outputs are incomplete */
};

/** The meaning of a status, never null. */
const char *NAME_status_text(int status);

/** What did not fit. */
typedef struct NAME_error {
  int status;
  const char *argument;    /**< its name in the spec; never freed */
  int axis;                /**< of its shape or strides, -1 where none is meant */
  int64_t expected, found;
} NAME_error;

/** Writes the message for `error` as snprintf does: "argument 'K': expected size 64 of axis 3, found 32". */
int NAME_describe(const NAME_error *error, char *text, size_t size);

/** A tensor of tokens that is read: element (b, h, n, i) of shape [B, H, N, width] is
    data[b * strides[0] + h * strides[1] + n * strides[2] + i]. The caller owns the memory. A tensor with one number for each
    token has width 1. */
typedef struct NAME_const_tensor {
  const NAME_element *data; /**< null is allowed when a size is 0 */
  int64_t shape[4];
  int64_t strides[3]; /**< in elements, not negative */
} NAME_const_tensor;

/** The same, written: rows must overlap neither each other nor memory that the call reads. */
typedef struct NAME_tensor {
  NAME_element *data;
  int64_t shape[4];
  int64_t strides[3];
} NAME_tensor;

/** A dense tensor, row by row. */
NAME_const_tensor NAME_dense_const(const NAME_element *data, int64_t batch, int64_t heads, int64_t rows, int64_t width);
NAME_tensor NAME_dense(NAME_element *data, int64_t batch, int64_t heads, int64_t rows, int64_t width);

/** The inputs of the attention. */
typedef struct NAME_inputs {
@INPUTS@} NAME_inputs;

/** Parameters and draws, dense, as NAME.safetensors has them to begin with. Draws are data: a new one is made by yaglom
    (Kernel::draw, `yaglom run --draws`). A null pointer serves for all of them where there are none. */
typedef struct NAME_parameters {
  int64_t heads; /**< H of the tensors below; not read where all of them are shared */
@PARAMETERS@} NAME_parameters;
)";

constexpr const char *kGradients = R"(
/** Where gradients go. What is there is overwritten. */
typedef struct NAME_gradients {
@INPUTS@@PARAMETERS@} NAME_gradients;
)";

constexpr const char *kCpu = R"(
/** How a call runs. */
typedef struct NAME_launch {
  void *scratch;        /**< memory for the call, or null: it then calls malloc() and free() once */
  size_t scratch_bytes; /**< of it: at least what NAME_forward_scratch_bytes()@BACKWARD_SCRATCH@ says */
  int64_t workers;      /**< that parallel_for may use; less than 1 is 1 */
  /** Calls body(job, item, worker) once for each item in [0, items), in any order and on any threads, and returns when all
      have returned. `worker` is in [0, workers), and no two bodies run with the same one at a time. Null: the calling thread
      runs all. Results do not depend on it, to the last bit. */
  void (*parallel_for)(void *context, int64_t items, void (*body)(void *job, int64_t item, int64_t worker), void *job);
  void *context;     /**< handed to parallel_for */
  NAME_error *error; /**< says what did not fit when the call fails; may be null */
} NAME_launch;

/** The version that this processor runs: "x86-64-v3". Null: none, and every launch returns NAME_PROCESSOR. */
const char *NAME_target(void);

/** Bytes of scratch that NAME_forward() needs; 0 when they cannot be had, or on a processor that no version is for. */
size_t NAME_forward_scratch_bytes(int64_t workers);

/** Computes O, @OUTPUT@. `launch` may be null. Nothing is written unless the arguments fit. */
int NAME_forward(const NAME_inputs *inputs, const NAME_parameters *parameters, const NAME_tensor *O,
                 const NAME_launch *launch);
)";

constexpr const char *kCpuBackward = R"(
/** Bytes of scratch that NAME_backward() needs; 0 as above. It grows with batch * heads by the parameters of a head, and with
    query_length by the worker. */
size_t NAME_backward_scratch_bytes(int64_t batch, int64_t heads, int64_t query_length, int64_t workers);

/** Gradients of sum(O * grad_O) by every input, parameter and draw; grad_O has the shape of O. Sums over the batch, and over
    heads that share a tensor, are in double precision and in a fixed order. `launch` may be null. */
int NAME_backward(const NAME_inputs *inputs, const NAME_parameters *parameters, const NAME_const_tensor *grad_O,
                  const NAME_gradients *gradients, const NAME_launch *launch);
)";

constexpr const char *kGpu = R"(
/* A kernel takes 64-bit words alone: cuLaunchKernel's kernelParams is an array of the addresses of the words. Its grid has
   B * H blocks in one dimension (nothing is launched when that is 0), its blocks NAME_THREADS threads. All data, scratch
   included, is memory of the GPU; the functions here read none of it. Each word:
     0 N   1 M, or N   2 position of the first token, 1   3 the larger of N and M   4, 5, 6, 7 zero (no state)
     8 H   9 address of scratch, a multiple of 256   10 bytes of scratch of a block
   then five for each tensor: address, and the distances of two batches, heads, rows and columns in elements. */

#define NAME_ARCHITECTURE "@ARCHITECTURE@" /**< and every later one */
#define NAME_THREADS @THREADS@
/** The kernel in @FORWARD_FILE@. */
#define NAME_FORWARD_KERNEL "@FORWARD_KERNEL@"
#define NAME_FORWARD_WORDS @FORWARD_WORDS@
/** Dynamic shared memory of a block, in bytes: beyond 48 KiB, first set
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES. */
#define NAME_FORWARD_SHARED_BYTES @FORWARD_SHARED@
#define NAME_FORWARD_BLOCK_SCRATCH @FORWARD_SCRATCH@ /**< bytes */

/** Bytes of scratch of a launch, 1 where none is needed; 0 when they cannot be had. */
size_t NAME_forward_scratch_bytes(int64_t batch, int64_t heads);

/** Writes the words of a launch that computes O, @OUTPUT@. `error` may be null. */
int NAME_forward_words(const NAME_inputs *inputs, const NAME_parameters *parameters, const NAME_tensor *O, void *scratch,
                       NAME_error *error, int64_t words[NAME_FORWARD_WORDS]);
)";

constexpr const char *kGpuBackward = R"(
/** The kernel in @BACKWARD_FILE@. */
#define NAME_BACKWARD_KERNEL "@BACKWARD_KERNEL@"
#define NAME_BACKWARD_WORDS @BACKWARD_WORDS@
#define NAME_BACKWARD_SHARED_BYTES @BACKWARD_SHARED@
#define NAME_BACKWARD_BLOCK_SCRATCH @BACKWARD_SCRATCH@

/** Bytes of scratch of a launch, as above. */
size_t NAME_backward_scratch_bytes(int64_t batch, int64_t heads, int64_t query_length);

/** A launch of NAME_SUM_KERNEL (of NAME_sums.ptx, seven words, no shared memory): it sums the gradients of a parameter over
    items, in float64 and in a fixed order. Nothing is to be launched when blocks is 0. */
typedef struct NAME_sum {
  int64_t words[7];
  int64_t blocks; /**< of NAME_SUM_THREADS threads */
} NAME_sum;
#define NAME_SUM_KERNEL "sum_@NUMBER_NAME@"
#define NAME_SUM_THREADS @SUM_THREADS@
#define NAME_SUMS @SUMS@ /**< launches after the kernel; an array of them has 1 element at least */

/** Writes the words of a launch of NAME_BACKWARD_KERNEL, which computes the gradients of sum(O * grad_O) by inputs, and of
    the launches after it, which compute those by parameters and draws, on the same stream. Where N is 0 the kernel writes
    nothing: gradients of inputs are then 0. `error` may be null. */
int NAME_backward_words(const NAME_inputs *inputs, const NAME_parameters *parameters, const NAME_const_tensor *grad_O,
                        const NAME_gradients *gradients, void *scratch, NAME_error *error,
                        int64_t words[NAME_BACKWARD_WORDS], NAME_sum *sums);
)";

constexpr const char *kEnd = R"(
#ifdef __cplusplus
}
#endif

#endif
)";

using Fields = std::vector<std::pair<std::string, std::string>>;

std::string fill(std::string text, const Fields &fields) {
  for (const auto &[key, value] : fields)
    for (std::size_t at; (at = text.find("@" + key + "@")) != std::string::npos;)
      text.replace(at, key.size() + 2, value);
  return text;
}

std::string inputMembers(const Interface &interface, const char *type, const char *note) {
  std::string text;
  for (const TokenTensor &input : interface.inputs)
    text += fmt::format("  NAME_{} {}; /**< {}{} */\n", type, input.member, axes(interface, input), note);
  return text;
}

std::string headMembers(const Interface &interface, const char *type, bool areGradients) {
  std::string text;
  for (const HeadTensor &tensor : interface.heads)
    text += fmt::format("  {} *{}; /**< {} {}{} */\n", type, tensor.member, tensor.name, axes(tensor),
                        areGradients ? "; null: not wanted" : ", " + tensor.note);
  return text;
}

Fields gpuFields(const Interface &interface, const Version &version) {
  using compiler::nvgpu::KernelAbi;
  const compiler::Entry &forward = version.forward.forward;
  const std::string prefix = symbolPrefix(interface.name, version.target);
  const auto number = [](auto value) { return fmt::format("{}", value); };
  Fields fields{
      {"ARCHITECTURE", version.forward.code.architecture},
      {"THREADS", number(forward.gpu.threads)},
      {"FORWARD_FILE", prefix + "forward.ptx"},
      {"FORWARD_KERNEL", forward.gpu.name},
      {"FORWARD_WORDS", number(KernelAbi::words(static_cast<int64_t>(forward.operands.size())))},
      {"FORWARD_SHARED", number(forward.gpu.sharedBytes)},
      {"FORWARD_SCRATCH", number(forward.gpu.scratchBytes)},
      {"SUM_THREADS", number(runtime::kSumThreads)},
      {"NUMBER_NAME", toText(interface.number)},
      {"SUMS", number(interface.heads.size())},
  };
  if (!version.backward)
    return fields;
  const compiler::GradientEntry &backward = version.backward->backward;
  const auto operands = static_cast<int64_t>(backward.operands.size() + backward.rowWidths.size());
  for (const auto &field : Fields{{"BACKWARD_FILE", prefix + "backward.ptx"},
                                  {"BACKWARD_KERNEL", backward.gpu.name},
                                  {"BACKWARD_WORDS", number(KernelAbi::words(operands))},
                                  {"BACKWARD_SHARED", number(backward.gpu.sharedBytes)},
                                  {"BACKWARD_SCRATCH", number(backward.gpu.scratchBytes)}})
    fields.push_back(field);
  return fields;
}

/// Last, so that what is filled in may have the prefix too.
std::string withPrefix(std::string text, const std::string &name) {
  const auto replace = [&](const std::string &from, const std::string &to) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  };
  replace("NAME_", name + "_");
  replace("NAME.", name + ".");
  return text;
}

} // namespace

std::string writeHeader(const Interface &interface, const std::vector<Version> &versions) {
  const Version &first = versions.front();
  const bool backward = first.backward.has_value();
  const bool isHalf = sizeOf(interface.element) == 2;
  const std::string number = "const NAME_number";
  std::string text = fill(
      kBegin, {{"WRITER", kWriter},
               {"KEYS", interface.equalLengths ? ", which is that of keys too" : ", M that of keys"},
               {"ELEMENT_NOTE", isHalf ? fmt::format(": the bits of a {}", toText(interface.element)) : std::string()},
               {"ELEMENT", toC(interface.element)},
               {"NUMBER", toC(interface.number)},
               {"INPUTS", inputMembers(interface, "const_tensor", "")},
               {"PARAMETERS", headMembers(interface, number.c_str(), false)},
               {"ORIGIN", interface.origin}});
  if (backward)
    text += fill(kGradients, {{"INPUTS", inputMembers(interface, "tensor", "")},
                              {"PARAMETERS", headMembers(interface, "NAME_number", true)}});
  text += first.isGpu() ? kGpu : kCpu;
  if (backward)
    text += first.isGpu() ? kGpuBackward : kCpuBackward;
  text += kEnd;
  if (first.isGpu())
    text = fill(text, gpuFields(interface, first));
  text = fill(text, {{"OUTPUT", axes(interface, interface.output)},
                     {"BACKWARD_SCRATCH", backward ? " or NAME_backward_scratch_bytes()" : ""}});
  return withPrefix(std::move(text), interface.name);
}

std::string writeCMake(const Interface &interface, const std::vector<std::string> &code, bool isGpu) {
  std::vector<std::string> sources{interface.name + ".c"}, files = code;
  for (std::string &file : files)
    file = "${CMAKE_CURRENT_LIST_DIR}/" + file;
  sources[0] = "${CMAKE_CURRENT_LIST_DIR}/" + sources[0];
  if (!isGpu)
    sources.insert(sources.end(), files.begin(), files.end());
  std::string text = fmt::format(R"(# {}: {}.
# find_package({} CONFIG PATHS this/folder), or include() this file: the static library {}. The project has the language C.
if(NOT TARGET {})
  add_library({} STATIC
    "{}")
  target_include_directories({} PUBLIC "${{CMAKE_CURRENT_LIST_DIR}}")
  set_target_properties({} PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON POSITION_INDEPENDENT_CODE ON LINKER_LANGUAGE C)
endif()
)",
                                 kWriter, interface.origin, interface.name, interface.name, interface.name,
                                 interface.name, fmt::join(sources, "\"\n    \""), interface.name, interface.name);
  if (isGpu)
    text += fmt::format("# PTX, for the application to load.\nset({}_PTX\n  \"{}\")\n", interface.name,
                        fmt::join(files, "\"\n  \""));
  return text;
}

} // namespace yaglom::exporting
