// C = A B for bf16 A [M, K] and B [K, N], row-major, float C [M, N]; M and N multiples of 64, K of 32. A block of 128 threads makes a
// tile of 64 x 64: two stages of cp.async, swizzled shared memory, ldmatrix, mma. Made into PTX as reduce.cu says.
// SPDX-License-Identifier: Apache-2.0
#include "device.h"

// Rows of 32 (A) and 64 (B) elements; a chunk of 8 elements moves with its row, so that ldmatrix meets no bank twice.
__attribute__((device)) static inline unsigned placeA(unsigned row, unsigned chunk) { return row * 64 + ((chunk ^ (row >> 1 & 3)) << 4); }
__attribute__((device)) static inline unsigned placeB(unsigned row, unsigned chunk) { return row * 128 + ((chunk ^ (row & 7)) << 4); }

__attribute__((device)) static inline void copy16(unsigned to, const void *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

__attribute__((device)) static inline void loadStage(unsigned stage, const unsigned short *A, const unsigned short *B, int N, int K, int row, int column, int k) {
  const int thread = threadOf();
  for (int i = thread; i < 256; i += 128) {
    copy16(stage + placeA(i / 4, i % 4), A + (long long)(row + i / 4) * K + k + i % 4 * 8);
    copy16(stage + 4096 + placeB(i / 8, i % 8), B + (long long)(k + i / 8) * N + column + i % 8 * 8);
  }
  asm volatile("cp.async.commit_group;" ::: "memory");
}

GLOBAL __attribute__((launch_bounds(128))) void matmul(const unsigned short *A, const unsigned short *B, float *C, int N, int K) {
  SHARED static __attribute__((aligned(1024))) unsigned char tile[16384];
  const unsigned base = sharedAddress(tile);
  const int tilesN = N / 64, row = blockOf() / tilesN * 64, column = blockOf() % tilesN * 64;
  const int thread = threadOf(), warp = thread / 32, lane = thread % 32;
  float sums[8][4] = {};
  loadStage(base, A, B, N, K, row, column, 0);
  for (int k = 0; k < K; k += 32) {
    const unsigned stage = base + (k / 32 % 2) * 8192;
    if (k + 32 < K)
      loadStage(base + ((k / 32 + 1) % 2) * 8192, A, B, N, K, row, column, k + 32);
    else
      asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    for (int half = 0; half < 2; ++half) {
      unsigned a[4];
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                   : "r"(stage + placeA(warp * 16 + lane % 16, half * 2 + lane / 16)) : "memory");
      for (int n = 0; n < 4; ++n) {
        unsigned b[4];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                     : "r"(stage + 4096 + placeB(half * 16 + lane % 16, n * 2 + lane / 16)) : "memory");
        for (int part = 0; part < 2; ++part) {
          float *c = sums[n * 2 + part];
          asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                       : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[part * 2]), "r"(b[part * 2 + 1]));
        }
      }
    }
    __syncthreads();
  }
  for (int n = 0; n < 8; ++n)
    for (int i = 0; i < 4; ++i)
      C[(long long)(row + warp * 16 + lane / 4 + i / 2 * 8) * N + column + n * 8 + lane % 4 * 2 + i % 2] = sums[n][i];
}
