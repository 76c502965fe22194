// The build ID is a note of the ELF file (--build-id): it changes with every byte of code or data.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/Identity.h"

#include "llvm-c/Core.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"

#include <fmt/format.h>

#include <cstdint>
#include <elf.h>
#include <link.h>
#include <string_view>

namespace yaglom::runtime::cache {
namespace {

struct Search {
  uintptr_t address; ///< in the object that is looked for
  std::string id;
};

/// The build ID among the notes of a segment; empty when there is none.
std::string buildIdIn(const char *notes, std::size_t bytes) {
  const auto padded = [](std::size_t size) { return (size + 3) / 4 * 4; };
  while (bytes >= sizeof(ElfW(Nhdr))) {
    const auto &note = *reinterpret_cast<const ElfW(Nhdr) *>(notes);
    const std::size_t size = sizeof note + padded(note.n_namesz) + padded(note.n_descsz);
    if (size > bytes)
      break;
    const std::string_view name(notes + sizeof note, note.n_namesz);
    if (note.n_type == NT_GNU_BUILD_ID && name == std::string_view("GNU", 4))
      return llvm::toHex(llvm::StringRef(notes + sizeof note + padded(note.n_namesz), note.n_descsz), true);
    notes += size;
    bytes -= size;
  }
  return {};
}

int visit(dl_phdr_info *info, std::size_t /*size*/, void *data) {
  auto &search = *static_cast<Search *>(data);
  bool contains = false;
  std::string id;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &segment = info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    contains |= segment.p_type == PT_LOAD && search.address - begin < segment.p_memsz;
    if (segment.p_type == PT_NOTE && id.empty())
      id = buildIdIn(reinterpret_cast<const char *>(begin), segment.p_memsz); // NOLINT(performance-no-int-to-ptr)
  }
  if (contains)
    search.id = id;
  return contains ? 1 : 0;
}

/// Of the library or program that the address lies in.
std::string buildIdOf(const void *address) {
  Search search{reinterpret_cast<uintptr_t>(address), {}};
  dl_iterate_phdr(visit, &search);
  return search.id;
}

std::string findIdentity() {
  const std::string own = buildIdOf(reinterpret_cast<const void *>(&buildIdentity));
  if (own.empty())
    return {};
  return fmt::format("yaglom {} {}, LLVM {} {}", YAGLOM_VERSION, own, LLVM_VERSION_STRING,
                     buildIdOf(reinterpret_cast<const void *>(&LLVMGetVersion)));
}

} // namespace

const std::string &buildIdentity() {
  static const std::string identity = findIdentity();
  return identity;
}

} // namespace yaglom::runtime::cache
