// The sum of each block's 1024 floats, out[block], by shuffles and shared memory. reduce.ptx and matmul.ptx are made of these by
// clang-22 -x cuda --cuda-device-only --cuda-gpu-arch=sm_80 -nocudainc -nocudalib -O3 -S reduce.cu -o reduce.ptx
// SPDX-License-Identifier: Apache-2.0
#include "device.h"

GLOBAL void reduce(const float *in, float *out, int length) {
  SHARED static float sums[8];
  const int thread = threadOf();
  float sum = 0;
  for (int i = blockOf() * 1024 + thread; i < (blockOf() + 1) * 1024; i += 256)
    sum += i < length ? in[i] : 0.0f;
  for (int offset = 16; offset > 0; offset /= 2)
    sum += __nvvm_shfl_sync_bfly_f32(0xffffffff, sum, offset, 31);
  if (thread % 32 == 0)
    sums[thread / 32] = sum;
  __syncthreads();
  if (thread == 0) {
    float total = 0;
    for (int i = 0; i < 8; ++i)
      total += sums[i];
    out[blockOf()] = total;
  }
}
