// The little that a kernel needs of CUDA, so that clang compiles it without a toolkit. See reduce.cu.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#define GLOBAL extern "C" __attribute__((global))
#define SHARED __attribute__((shared))
inline __attribute__((device)) int threadOf() { return __nvvm_read_ptx_sreg_tid_x(); }
inline __attribute__((device)) int blockOf() { return __nvvm_read_ptx_sreg_ctaid_x(); }
inline __attribute__((device)) unsigned sharedAddress(const void *p) {
  return (unsigned)(unsigned long long)(__attribute__((address_space(3))) const void *)p;
}
