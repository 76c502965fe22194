// The CUDA driver, found at run time: libcuda.so.1, its functions, and its errors in words.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cuda/Abi.h"
#include "yaglom/result.h"

#include <memory>
#include <string>
#include <string_view>

namespace yaglom::cuda {

class Driver;

/// Every object of this library keeps the driver it came from.
using DriverPointer = std::shared_ptr<const Driver>;

/// The loaded and initialised driver. May be used from several threads at a time.
class Driver {
public:
  /// The driver of this process: the file that the environment variable YAGLOM_LIBCUDA names, else libcuda.so.1. It is
  /// loaded by the first call, whichever thread makes it; all calls give the same answer, an Error too. In a process
  /// that was forked after that, an Error: the driver does not survive fork().
  static Result<DriverPointer> shared();

  /// Loads and initialises the driver of the library `path`, a file or a name for the dynamic linker. The library stays
  /// loaded until the process ends. Errors: there is none, it is the toolkit's stub, it lacks a function, it is older
  /// than CUDA 11.0, it sees no GPU.
  static Result<DriverPointer> open(const std::string &path);

  /// The highest version of CUDA that the driver supports, 1000 * major + 10 * minor: 12040 is 12.4.
  int version() const { return driverVersion; }

  /// Success, or the error() of `status`.
  Result<void> check(abi::Status status, std::string_view call, std::string_view subject = {}) const;

  /// What went wrong, for the user: "SUBJECT: CALL: CUDA_ERROR_INVALID_PTX (218): the driver's text; what it means
  /// here". `subject` says what was being done, and may be empty.
  Error error(abi::Status status, std::string_view call, std::string_view subject = {}) const;

  /// True in a process that was forked from the one that loaded the driver: it must not be called there.
  bool isForked() const;

  /// What isForked() means for the user.
  static Error forkedError();

  /// The functions of the driver.
  abi::Functions api;

  /// An empty driver; open() makes those that can be used.
  Driver();

private:
  int driverVersion = 0;
  unsigned forksBefore; ///< that had happened when it was loaded
};

/// "12.4" for 12040.
std::string versionText(int version);

/// True for an error after which no call succeeds in this process's context: the kernel crashed, or the GPU failed.
bool losesContext(abi::Status status);

} // namespace yaglom::cuda
