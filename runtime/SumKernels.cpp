// One thread a sum. Written as PTX: a loop of additions needs no tiles.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/SumKernels.h"

#include <fmt/format.h>

namespace yaglom::runtime {
namespace {

/// The parameters of a kernel.
enum Word : int { Sums, Items, Elements, Kept, Heads, Batch, Adds, kWords };

/// How elements of a type come to %x, a float64, and back: bf16 is the upper half of a float32.
struct Element {
  const char *name;
  int bytes;
  const char *load;  ///< [%a] to %x
  const char *store; ///< %x to [%o]
  const char *round; ///< %x to the nearest element, as a float64
};

constexpr Element kElements[] = {
    {"f32", 4, "ld.global.f32 %s, [%a]; cvt.f64.f32 %x, %s;", "cvt.rn.f32.f64 %s, %x; st.global.f32 [%o], %s;",
     "cvt.rn.f32.f64 %s, %x; cvt.f64.f32 %x, %s;"},
    {"f64", 8, "ld.global.f64 %x, [%a];", "st.global.f64 [%o], %x;", ""},
    {"f16", 2, "ld.global.u16 %h, [%a]; cvt.f32.f16 %s, %h; cvt.f64.f32 %x, %s;",
     "cvt.rn.f32.f64 %s, %x; cvt.rn.f16.f32 %h, %s; st.global.u16 [%o], %h;",
     "cvt.rn.f32.f64 %s, %x; cvt.rn.f16.f32 %h, %s; cvt.f32.f16 %s, %h; cvt.f64.f32 %x, %s;"},
    {"bf16", 2, "ld.global.u16 %h, [%a]; cvt.u32.u16 %w, %h; shl.b32 %w, %w, 16; mov.b32 %s, %w; cvt.f64.f32 %x, %s;",
     "cvt.rn.f32.f64 %s, %x; cvt.rn.bf16.f32 %h, %s; st.global.u16 [%o], %h;",
     "cvt.rn.f32.f64 %s, %x; cvt.rn.bf16.f32 %h, %s; cvt.u32.u16 %w, %h; shl.b32 %w, %w, 16; mov.b32 %s, %w; "
     "cvt.f64.f32 %x, %s;"},
};

/// Thread t has sum t: of kept head %k = t / elements, entry %i = t % elements.
constexpr const char *kKernel = R"(
.visible .entry sum_{name}(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3, .param .u64 p4,
                          .param .u64 p5, .param .u64 p6)
.reqntid {threads}
{{
  .reg .pred %p;
  .reg .b16 %h;
  .reg .b32 %w, %u;
  .reg .b64 %sums, %items, %elements, %kept, %heads, %batch, %adds, %t, %n, %k, %i, %b, %j, %o, %a;
  .reg .f32 %s;
  .reg .f64 %x, %total;
  ld.param.u64 %sums, [p0];
  ld.param.u64 %items, [p1];
  ld.param.u64 %elements, [p2];
  ld.param.u64 %kept, [p3];
  ld.param.u64 %heads, [p4];
  ld.param.u64 %batch, [p5];
  ld.param.u64 %adds, [p6];
  mov.u32 %u, %ctaid.x;
  mul.wide.u32 %t, %u, {threads};
  mov.u32 %u, %tid.x;
  cvt.u64.u32 %n, %u;
  add.s64 %t, %t, %n;
  mul.lo.s64 %n, %elements, %kept;
  setp.ge.s64 %p, %t, %n;
  @%p bra DONE;
  div.u64 %k, %t, %elements;
  rem.u64 %i, %t, %elements;
  mov.f64 %total, 0d0000000000000000;
  mov.u64 %b, 0;
BATCH:
  setp.ge.s64 %p, %b, %batch;
  @%p bra WRITE;
  mov.u64 %j, %k;
HEAD:
  mad.lo.s64 %a, %b, %heads, %j;
  mad.lo.s64 %a, %a, %elements, %i;
  mad.lo.s64 %a, %a, {bytes}, %items;
  {load}
  add.rn.f64 %total, %total, %x;
  add.s64 %j, %j, %kept;
  setp.lt.s64 %p, %j, %heads;
  @%p bra HEAD;
  add.s64 %b, %b, 1;
  bra BATCH;
WRITE:
  mad.lo.s64 %o, %t, {bytes}, %sums;
  setp.eq.s64 %p, %adds, 0;
  @%p bra STORE;
  mov.f64 %x, %total;
  {round}
  mov.f64 %total, %x;
  mov.u64 %a, %o;
  {load}
  add.rn.f64 %total, %x, %total;
STORE:
  mov.f64 %x, %total;
  {store}
DONE:
  ret;
}}
)";

} // namespace

std::string sumKernelsPtx() {
  std::string text = ".version 7.0\n.target sm_80\n.address_size 64\n";
  for (const Element &element : kElements)
    text += fmt::format(fmt::runtime(kKernel), fmt::arg("name", element.name), fmt::arg("threads", kSumThreads),
                        fmt::arg("bytes", element.bytes), fmt::arg("load", element.load),
                        fmt::arg("store", element.store), fmt::arg("round", element.round));
  return text;
}

void sumItems(const GpuDevice &device, const ItemSum &sum, GpuSession &session) {
  const int64_t kept = sum.shared ? 1 : sum.heads, count = kept * sum.elements;
  if (count == 0)
    return;
  const compiler::GpuKernel kernel{device.sums(), fmt::format("sum_{}", toText(sum.dtype)), kSumThreads};
  GpuWork work{&kernel, (count + kSumThreads - 1) / kSumThreads, std::vector<int64_t>(kWords), {}};
  work.words[Elements] = sum.elements;
  work.words[Kept] = kept;
  work.words[Heads] = sum.heads;
  work.words[Batch] = sum.batch;
  work.words[Adds] = sum.adds;
  const std::size_t bytes = sizeOf(sum.dtype);
  work.pointers.push_back(
      {Sums, "sums", GpuPointer::Memory::Device, sum.sums, static_cast<std::size_t>(count) * bytes, true});
  work.pointers.push_back({Items, "items", GpuPointer::Memory::Device, const_cast<char *>(sum.items),
                           static_cast<std::size_t>(sum.batch * sum.heads * sum.elements) * bytes, false});
  session.launch(work);
}

} // namespace yaglom::runtime
