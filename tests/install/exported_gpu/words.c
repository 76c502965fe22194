// `words make DIR` writes inputs, and prints the arguments of `yaglom emulate` for launches of exported kernels, by the words that
// the C functions write; `words check DIR` compares what the emulator wrote with what `yaglom run` did. Addresses are made up: no
// function of an export reads what they point to.
// SPDX-License-Identifier: Apache-2.0
#include "exported/Safetensors.h"
#include "gpu.h"

#include <inttypes.h>

enum { B = 2, H = 2, N = 40, D = 16, kTensors = 9, kScratch = 1 << 24 };

static const char *const kNames[kTensors] = {"Q", "K", "V", "favor.W", "grad.O", "O", "grad.Q", "grad.K", "grad.V"};

/* "O:out:F32:2x2x40x16" for what is written. */
static void print_tensor(int index) {
  const char *const name = kNames[index];
  if (index < 5)
    printf("%s", name);
  else
    printf("%s:out:F32:%dx%dx%dx%d", name, B, H, N, D);
}

static float *address_of(int index) { return (float *)(intptr_t)(4096 * (index + 1)); }

/* Each address in the scratch is a tensor of its own here, that of the gradients to be summed is "items". */
static void print_word(int64_t word, size_t scratch_bytes, int64_t items) {
  for (int i = 0; i < kTensors; ++i)
    if (word == (intptr_t)address_of(i)) {
      print_tensor(i);
      return;
    }
  if (word != 0 && word == items)
    printf("items:out:F32:%dx%dx%dx%d", B, H, D, D);
  else if (word >= kScratch && word < kScratch + (int64_t)scratch_bytes)
    printf("s%" PRId64 ":out:%" PRId64, word, kScratch + (int64_t)scratch_bytes - word);
  else
    printf("%" PRId64, word);
}

static void print_words(const int64_t *words, int count, size_t scratch_bytes, int64_t items) {
  for (int i = 0; i < count; ++i) {
    printf(i ? "," : "");
    print_word(words[i], scratch_bytes, items);
  }
  printf("\n");
}

static void print_sum(const gpu_sum *sum) {
  printf("%s %" PRId64 " %d 0 grad.favor.W:out:F32:%dx%dx%d,items", gpu_SUM_KERNEL, sum->blocks, gpu_SUM_THREADS, H, D,
         D);
  for (int i = 2; i < 7; ++i)
    printf(",%" PRId64, sum->words[i]);
  printf("\n");
}

static struct file open_file(const char *folder, const char *name) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return read_file(path);
}

static void make_inputs(const char *folder) {
  static float data[B * H * N * D];
  struct file initial = open_file(folder, "gpu.safetensors");
  struct writer writer = {"", NULL, 0};
  char path[512];
  uint32_t state = 1;
  for (int i = 0; i < 5; ++i) {
    if (i == 3) {
      add_tensor(&writer, kNames[i], "F32", "[2,16,16]", find_tensor(&initial, kNames[i], H * D * D * sizeof *data),
                 H * D * D * sizeof *data);
      continue;
    }
    for (int j = 0; j < B * H * N * D; ++j) {
      state = state * 1664525u + 1013904223u;
      data[j] = (float)(state >> 8) / 8388608.0f - 1.0f;
    }
    add_tensor(&writer, kNames[i], "F32", "[2,2,40,16]", data, sizeof data);
  }
  snprintf(path, sizeof path, "%s/in", folder);
  write_file(&writer, path);
  free(initial.bytes);
}

static int check(const char *folder) {
  static const char *const kFiles[] = {"forward.out", "backward.out", "backward.out", "backward.out", "sum.out"};
  static const char *const kOutputs[] = {"O", "grad.Q", "grad.K", "grad.V", "grad.favor.W"};
  struct file expected = open_file(folder, "run.out");
  int failures = 0;
  for (int i = 0; i < 5; ++i) {
    const size_t size = (i < 4 ? B * H * N * D : H * D * D) * sizeof(float);
    struct file found = open_file(folder, kFiles[i]);
    if (memcmp(find_tensor(&found, kOutputs[i], size), find_tensor(&expected, kOutputs[i], size), size) != 0) {
      fprintf(stderr, "%s differs\n", kOutputs[i]);
      ++failures;
    }
    free(found.bytes);
  }
  return failures;
}

/* Lines: kernel, blocks, threads, bytes of shared memory, arguments. */
static int print_launches(void) {
  gpu_const_tensor in[5];
  gpu_tensor out[kTensors];
  int64_t forward[gpu_FORWARD_WORDS], backward[gpu_BACKWARD_WORDS];
  gpu_sum sums[gpu_SUMS];
  gpu_error error;
  for (int i = 0; i < 5; ++i)
    in[i] = gpu_dense_const(address_of(i), B, H, N, D);
  for (int i = 5; i < kTensors; ++i)
    out[i] = gpu_dense(address_of(i), B, H, N, D);
  const gpu_inputs inputs = {in[0], in[1], in[2]};
  const gpu_parameters parameters = {H, address_of(3)};
  const gpu_gradients gradients = {out[6], out[7], out[8], (float *)(intptr_t)4};
  void *const scratch = (void *)(intptr_t)kScratch;
  if (gpu_forward_words(&inputs, &parameters, &out[5], scratch, &error, forward) != gpu_OK ||
      gpu_backward_words(&inputs, &parameters, &in[4], &gradients, scratch, &error, backward, sums) != gpu_OK)
    return 1;
  /* Scratch that is not aligned, and a tensor of another width. */
  gpu_inputs bad = inputs;
  bad.K.shape[3] = 8;
  if (gpu_forward_words(&inputs, &parameters, &out[5], (char *)scratch + 4, &error, forward) == gpu_OK ||
      strcmp(error.argument, "scratch") != 0 ||
      gpu_forward_words(&bad, &parameters, &out[5], scratch, &error, forward) != gpu_SHAPE ||
      gpu_forward_words(&inputs, &parameters, &out[5], scratch, NULL, forward) != gpu_OK)
    return 2;
  printf("%s %d %d %d ", gpu_FORWARD_KERNEL, B * H, gpu_THREADS, gpu_FORWARD_SHARED_BYTES);
  print_words(forward, gpu_FORWARD_WORDS, gpu_forward_scratch_bytes(B, H), 0);
  printf("%s %d %d %d ", gpu_BACKWARD_KERNEL, B * H, gpu_THREADS, gpu_BACKWARD_SHARED_BYTES);
  print_words(backward, gpu_BACKWARD_WORDS, gpu_backward_scratch_bytes(B, H, N), sums[0].words[1]);
  print_sum(&sums[0]);
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "check") == 0)
    return check(argv[2]);
  if (argc != 3 || strcmp(argv[1], "make") != 0)
    stop("usage", "words make|check DIR");
  make_inputs(argv[2]);
  return print_launches();
}
