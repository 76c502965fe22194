// Reading and writing safetensors files in plain C, as an application without yaglom does it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct file {
  char *bytes; /* of the whole file, and a 0 */
  const char *data;
};

static void stop(const char *what, const char *name) {
  fprintf(stderr, "%s: %s\n", what, name);
  exit(1);
}

static struct file read_file(const char *path) {
  struct file file;
  FILE *stream = fopen(path, "rb");
  if (!stream)
    stop("cannot open", path);
  fseek(stream, 0, SEEK_END);
  const size_t size = (size_t)ftell(stream);
  rewind(stream);
  file.bytes = calloc(size + 1, 1);
  if (!file.bytes || size < 8 || fread(file.bytes, 1, size, stream) != size)
    stop("cannot read", path);
  fclose(stream);
  uint64_t header;
  memcpy(&header, file.bytes, sizeof header);
  file.data = file.bytes + 8 + header;
  return file;
}

/* The bytes of a tensor; their number must be `size`. These headers hold no blanks that matter and no quotes in names. */
static const void *find_tensor(const struct file *file, const char *name, size_t size) {
  char key[128];
  unsigned long long begin, end;
  snprintf(key, sizeof key, "\"%s\":", name);
  const char *entry = strstr(file->bytes + 8, key);
  const char *offsets = entry ? strstr(entry, "\"data_offsets\":[") : NULL;
  if (!offsets || sscanf(offsets, "\"data_offsets\":[%llu,%llu]", &begin, &end) != 2)
    stop("no such tensor", name);
  if (end - begin != size)
    stop("a tensor of another size", name);
  return file->data + begin;
}

/* A file of 4-dimensional tensors that is written entry by entry. */
struct writer {
  char header[2048];
  char *data;
  size_t size;
};

static void add_tensor(struct writer *writer, const char *name, const char *dtype, const char *shape, const void *bytes,
                       size_t size) {
  const size_t used = strlen(writer->header);
  snprintf(writer->header + used, sizeof writer->header - used,
           "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}", used ? "," : "{", name, dtype, shape,
           writer->size, writer->size + size);
  writer->data = realloc(writer->data, writer->size + size);
  if (!writer->data)
    stop("out of memory", name);
  memcpy(writer->data + writer->size, bytes, size);
  writer->size += size;
}

static void write_file(struct writer *writer, const char *path) {
  strcat(writer->header, "}");
  const uint64_t length = strlen(writer->header);
  FILE *stream = fopen(path, "wb");
  if (!stream || fwrite(&length, sizeof length, 1, stream) != 1 || fwrite(writer->header, length, 1, stream) != 1 ||
      fwrite(writer->data, writer->size, 1, stream) != 1 || fclose(stream) != 0)
    stop("cannot write", path);
  free(writer->data);
}
