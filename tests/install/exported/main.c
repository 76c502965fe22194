// Links exported attentions without yaglom: `exported make DIR` writes inputs, `exported check DIR` compares outputs and gradients
// with those that `yaglom run` wrote there, bit for bit.
// SPDX-License-Identifier: Apache-2.0
#include "Cases.h"
#include "Safetensors.h"

#include "exact.h"
#include "flexformer.h"
#include "levels.h"
#include "linear_transformer.h"
#include "performer.h"
#include "retention.h"
#include "shared.h"
#include "wide.h"

static int failures = 0;

static void expect(int condition, const char *name, const char *what) {
  if (!condition) {
    ++failures;
    fprintf(stderr, "%s: %s\n", name, what);
  }
}

/* In (0, 1): a gate may be one of them. */
static double next_number(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return ((double)(*state >> 11) + 0.5) / 9007199254740992.0;
}

static void *allocate(size_t bytes) {
  void *memory = malloc(bytes + 64);
  if (!memory)
    stop("out of memory", "tensor");
  memset(memory, 0xA5, bytes + 64);
  return memory;
}

/* Between [B, H, rows, width], as files have tensors, and [B, rows, H, width], as applications often do. */
static void reorder(char *dense, char *stored, int64_t rows, int64_t width, size_t bytes, int is_load) {
  const size_t row = (size_t)width * bytes;
  for (int64_t b = 0; b < B; ++b)
    for (int64_t h = 0; h < H; ++h)
      for (int64_t n = 0; n < rows; ++n) {
        char *one = dense + (size_t)((b * H + h) * rows + n) * row;
        char *other = stored + (size_t)((b * rows + n) * H + h) * row;
        memcpy(is_load ? other : one, is_load ? one : other, row);
      }
}

static void *load(const struct file *file, const char *name, int64_t rows, int64_t width, size_t bytes) {
  const size_t size = (size_t)(B * H * rows * width) * bytes;
  void *dense = allocate(size), *stored = allocate(size);
  memcpy(dense, find_tensor(file, name, size), size);
  reorder(dense, stored, rows, width, bytes, 1);
  free(dense);
  return stored;
}

static int is_equal(const struct file *file, const char *name, void *stored, int64_t rows, int64_t width,
                    size_t bytes) {
  const size_t size = (size_t)(B * H * rows * width) * bytes;
  char *dense = allocate(size);
  reorder(dense, stored, rows, width, bytes, 0);
  const int equal = memcmp(dense, find_tensor(file, name, size), size) == 0;
  free(dense);
  return equal;
}

/* The last item first, on two workers in turn. */
static void backwards(void *context, int64_t items, void (*body)(void *, int64_t, int64_t), void *job) {
  *(int64_t *)context += items;
  while (items-- > 0)
    body(job, items, items % 2);
}

static struct file open_file(const char *folder, const char *name, const char *suffix) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s%s", folder, name, suffix);
  return read_file(path);
}

#define STRIDED(data, rows, width)                                                                                     \
  {                                                                                                                    \
    data, {B, H, rows, width}, { (rows) * H *(width), width, H *(width) }                                              \
  }

#define MAKE_INPUT(member, name, rows, width) make_tensor(&writer, name, rows, width, bytes, &state);
#define INPUT_DATA(member, name, rows, width) void *data_##member = load(&in, name, rows, width, bytes);
#define INPUT(member, name, rows, width) .member = STRIDED(data_##member, rows, width),
#define GRADIENT_DATA(member, name, rows, width)                                                                       \
  void *grad_##member = allocate((size_t)(B * H * (rows) * (width)) * bytes);
#define GRADIENT(member, name, rows, width) .member = STRIDED(grad_##member, rows, width),
#define CHECK_GRADIENT(member, name, rows, width)                                                                      \
  expect(is_equal(&out, "grad." name, grad_##member, rows, width, bytes), kName, "grad." name " differs");
#define FREE_INPUT(member, name, rows, width) free(data_##member), free(grad_##member);
#define PARAMETER(member, name, entries) .member = find_tensor(&initial, name, (entries) * bytes),
#define HEAD_GRADIENT_DATA(member, name, entries) void *grad_##member = allocate((entries) * bytes);
#define HEAD_GRADIENT(member, name, entries) .member = grad_##member,
#define CHECK_HEAD_GRADIENT(member, name, entries)                                                                     \
  expect(memcmp(grad_##member, find_tensor(&out, "grad." name, (entries) * bytes), (entries) * bytes) == 0, kName,     \
         "grad." name " differs");
#define FREE_HEAD(member, name, entries) free(grad_##member);

static void make_tensor(struct writer *writer, const char *name, int64_t rows, int64_t width, size_t bytes,
                        uint64_t *state) {
  const int64_t entries = B * H * rows * width;
  const int is_gate = width == 1; /* those have shape [B, H, N] in files */
  char shape[64];
  void *data = allocate((size_t)entries * bytes);
  for (int64_t i = 0; i < entries; ++i) {
    const double value = is_gate ? next_number(state) : 2 * next_number(state) - 1;
    if (bytes == sizeof(float))
      ((float *)data)[i] = (float)value;
    else
      ((double *)data)[i] = value;
  }
  if (is_gate)
    snprintf(shape, sizeof shape, "[%d,%d,%d]", B, H, (int)rows);
  else
    snprintf(shape, sizeof shape, "[%d,%d,%d,%d]", B, H, (int)rows, (int)width);
  add_tensor(writer, name, bytes == sizeof(float) ? "F32" : "F64", shape, data, (size_t)entries * bytes);
  free(data);
}

#define DEFINE(NAME, ELEMENT, INPUTS, HEADS)                                                                           \
  static void NAME##_make(const char *folder) {                                                                        \
    const size_t bytes = sizeof(ELEMENT);                                                                              \
    uint64_t state = sizeof #NAME;                                                                                     \
    struct writer writer = {"", NULL, 0};                                                                              \
    char path[512];                                                                                                    \
    INPUTS(MAKE_INPUT)                                                                                                 \
    make_tensor(&writer, "grad.O", N, E, bytes, &state);                                                               \
    snprintf(path, sizeof path, "%s/%s.in", folder, #NAME);                                                            \
    write_file(&writer, path);                                                                                         \
  }                                                                                                                    \
  static void NAME##_check(const char *folder) {                                                                       \
    static const char kName[] = #NAME;                                                                                 \
    const size_t bytes = sizeof(ELEMENT);                                                                              \
    struct file in = open_file(folder, kName, ".in"), out = open_file(folder, kName, ".out");                          \
    struct file initial = open_file(folder, kName, ".safetensors");                                                    \
    int64_t ran = 0;                                                                                                   \
    INPUTS(INPUT_DATA)                                                                                                 \
    INPUTS(GRADIENT_DATA)                                                                                              \
    HEADS(HEAD_GRADIENT_DATA)                                                                                          \
    void *data_O = allocate(B * H * N * E * bytes), *grad_O = load(&in, "grad.O", N, E, bytes);                        \
    const NAME##_inputs inputs = {INPUTS(INPUT)};                                                                      \
    const NAME##_parameters parameters = {.heads = H, HEADS(PARAMETER)};                                               \
    const NAME##_gradients gradients = {INPUTS(GRADIENT) HEADS(HEAD_GRADIENT)};                                        \
    const NAME##_tensor O = STRIDED(data_O, N, E);                                                                     \
    const NAME##_const_tensor dO = STRIDED(grad_O, N, E);                                                              \
    NAME##_launch launch = {NULL, 0, 2, backwards, &ran, NULL};                                                        \
    for (int is_spread = 0; is_spread < 2; ++is_spread) {                                                              \
      memset(data_O, 0xA5, B * H * N * E * bytes);                                                                     \
      expect(NAME##_forward(&inputs, &parameters, &O, is_spread ? &launch : NULL) == NAME##_OK, kName, "forward");     \
      expect(is_equal(&out, "O", data_O, N, E, bytes), kName, "O differs");                                            \
      launch.scratch_bytes = NAME##_backward_scratch_bytes(B, H, N, 2);                                                \
      launch.scratch = allocate(launch.scratch_bytes);                                                                 \
      expect(NAME##_backward(&inputs, &parameters, &dO, &gradients, is_spread ? &launch : NULL) == NAME##_OK, kName,   \
             "backward");                                                                                              \
      for (size_t i = 0; i < 64; ++i)                                                                                  \
        expect(((unsigned char *)launch.scratch)[launch.scratch_bytes + i] == 0xA5, kName, "wrote behind scratch");    \
      free(launch.scratch);                                                                                            \
      launch.scratch = NULL;                                                                                           \
      INPUTS(CHECK_GRADIENT)                                                                                           \
      HEADS(CHECK_HEAD_GRADIENT)                                                                                       \
    }                                                                                                                  \
    expect(ran == 2 * B * H, kName, "parallel_for ran another number of items");                                       \
    INPUTS(FREE_INPUT)                                                                                                 \
    HEADS(FREE_HEAD)                                                                                                   \
    free(data_O), free(grad_O), free(in.bytes), free(out.bytes), free(initial.bytes);                                  \
  }
CASES(DEFINE)

#define IS_TEXT(error, expected)                                                                                       \
  flexformer_describe(&error, text, sizeof text), expect(strcmp(text, expected) == 0, expected, text)

/* Every kind of mistake is refused by name before anything is written. */
static void check_mistakes(void) {
  static float data[B * H * N * D], weights[H * 16 * D], output[B * H * N * E];
  flexformer_error error;
  flexformer_launch launch = {NULL, 0, 1, NULL, NULL, &error};
  char text[256];
  const flexformer_inputs good = {flexformer_dense_const(data, B, H, N, D), flexformer_dense_const(data, B, H, N, D),
                                  flexformer_dense_const(data, B, H, N, E)};
  const flexformer_parameters parameters = {H, weights, weights, weights, weights};
  const flexformer_tensor O = flexformer_dense(output, B, H, N, E);
  output[0] = 7;

  flexformer_inputs bad = good;
  bad.K.shape[3] = 8;
  expect(flexformer_forward(&bad, &parameters, &O, &launch) == flexformer_SHAPE, "shape", "is not refused");
  IS_TEXT(error, "argument 'K': expected size 16 of axis 3, found 8");
  bad = good;
  bad.V.shape[2] = 1;
  expect(flexformer_forward(&bad, &parameters, &O, &launch) == flexformer_SHAPE, "length", "is not refused");
  IS_TEXT(error, "argument 'V': expected size 150 of axis 2, found 1");
  bad = good;
  bad.Q.data = NULL;
  expect(flexformer_forward(&bad, &parameters, &O, &launch) == flexformer_NULL, "null", "is not refused");
  IS_TEXT(error, "argument 'Q': expected memory, found a null pointer");
  bad = good;
  bad.Q.data = (const float *)((const char *)data + 1);
  expect(flexformer_forward(&bad, &parameters, &O, &launch) == flexformer_ALIGNMENT, "alignment", "is not refused");
  IS_TEXT(error, "argument 'Q': expected an address that is a multiple of 4, found one 1 beyond");
  bad = good;
  bad.Q.strides[2] = -1;
  expect(flexformer_forward(&bad, &parameters, &O, &launch) == flexformer_STRIDE, "stride", "is not refused");
  IS_TEXT(error, "argument 'Q': expected a stride of 0 or more of axis 2, found -1");
  bad = good;
  bad.Q.shape[0] = INT64_MAX;
  expect(flexformer_forward(&bad, &parameters, &O, &launch) == flexformer_SHAPE, "size", "is not refused");
  bad = good;
  bad.Q.shape[0] = -1;
  expect(flexformer_forward(&bad, &parameters, &O, &launch) == flexformer_SHAPE, "negative", "is not refused");

  flexformer_tensor rows = O;
  rows.strides[2] = E - 1;
  expect(flexformer_forward(&good, &parameters, &rows, &launch) == flexformer_STRIDE, "rows of O", "are not refused");
  IS_TEXT(error, "argument 'O': expected a stride of 12 or more of axis 2, found 11");
  flexformer_parameters other = parameters;
  other.heads = 1;
  expect(flexformer_forward(&good, &other, &O, &launch) == flexformer_SHAPE, "heads", "are not refused");
  IS_TEXT(error, "argument 'parameters.heads': expected 2, found 1");
  other = parameters;
  other.flexformer_n_tau = NULL;
  expect(flexformer_forward(&good, &other, &O, &launch) == flexformer_NULL, "tau", "is not refused");
  IS_TEXT(error, "argument 'flexformer_n.tau': expected memory, found a null pointer");
  expect(flexformer_forward(&good, NULL, &O, NULL) == flexformer_NULL, "parameters", "are not refused");
  launch.scratch = output;
  launch.scratch_bytes = 1;
  expect(flexformer_forward(&good, &parameters, &O, &launch) == flexformer_SCRATCH, "scratch", "is not refused");
  expect(error.expected == (int64_t)flexformer_forward_scratch_bytes(1) && error.found == 1, "scratch", "by bytes");
  expect(flexformer_backward_scratch_bytes(INT64_MAX, 2, 1, 1) == 0, "scratch", "of too many items");
  expect(output[0] == 7, "O", "was written");
  for (int status = flexformer_OK; status <= flexformer_WORKER + 1; ++status)
    expect(strlen(flexformer_status_text(status)) > 5, "status", "without a text");
}

/* Without a query: gradients of keys and parameters are 0. Without a batch nothing is read, and the same holds. */
static void check_empty(void) {
  static double data[B * H * M * D], scale[D], half[H], gradient[B * H * M * D];
  for (int batch = B; batch >= 0; batch -= B) {
    const shared_inputs inputs = {shared_dense_const(NULL, batch, H, 0, D), shared_dense_const(NULL, batch, H, 0, 1),
                                  shared_dense_const(data, batch, H, M, D), shared_dense_const(data, batch, H, M, E),
                                  shared_dense_const(data, batch, H, M, E)};
    double grad_scale[D] = {7}, grad_half[H] = {7, 7};
    static double of_v[B * H * M * E], of_register[B * H * M * E];
    const shared_parameters parameters = {.heads = H, .features_scale = scale, .both_double = half};
    const shared_const_tensor dO = shared_dense_const(NULL, batch, H, 0, E);
    const shared_gradients gradients = {shared_dense(NULL, batch, H, 0, D),
                                        shared_dense(NULL, batch, H, 0, 1),
                                        shared_dense(gradient, batch, H, M, D),
                                        shared_dense(of_v, batch, H, M, E),
                                        shared_dense(of_register, batch, H, M, E),
                                        .features_scale = grad_scale,
                                        .both_double = grad_half};
    for (int i = 0; i < B * H * M * D; ++i)
      gradient[i] = 7;
    const size_t bytes = shared_backward_scratch_bytes(batch, H, 0, 1);
    const shared_launch launch = {.scratch = allocate(bytes), .scratch_bytes = bytes};
    expect(shared_backward(&inputs, &parameters, &dO, &gradients, &launch) == shared_OK, "no query", "is refused");
    for (int i = 0; i < batch * H * M * D; ++i)
      expect(gradient[i] == 0, "no query", "grad.K is not 0");
    expect(grad_scale[0] == 0 && grad_half[1] == 0, "no query", "gradients of parameters are not 0");
    free(launch.scratch);
  }
}

/* An export for AVX-512 alone is refused where there is none. */
static void check_processor(int is_wide) {
  static float data[D];
  wide_error error = {0};
  const wide_launch launch = {.error = &error};
  const wide_inputs inputs = {wide_dense_const(data, 1, 1, 1, D), wide_dense_const(data, 1, 1, 1, D),
                              wide_dense_const(data, 1, 1, 1, E)};
  const wide_tensor O = wide_dense(data, 1, 1, 1, E);
  const int status = is_wide ? wide_OK : wide_PROCESSOR;
  expect(wide_forward(&inputs, NULL, &O, &launch) == status && error.status == status, "wide", "another status");
  expect((wide_target() != NULL) == is_wide && (wide_forward_scratch_bytes(1) != 0) == is_wide, "wide", "is chosen");
}

#define MAKE(NAME, ELEMENT, INPUTS, HEADS) NAME##_make(argv[2]);
#define CHECK(NAME, ELEMENT, INPUTS, HEADS) NAME##_check(argv[2]);

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "make") == 0) {
    CASES(MAKE)
    return 0;
  }
  if (argc != 3 || strcmp(argv[1], "check") != 0)
    stop("usage", "exported make|check DIR");
  CASES(CHECK)
  check_mistakes();
  check_empty();
  const int is_wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  expect(strcmp(levels_target(), is_wide ? "x86-64-v4" : "x86-64-v3") == 0, "levels", levels_target());
  check_processor(is_wide);
  printf("%d failures, %s\n", failures, levels_target());
  return failures != 0;
}
