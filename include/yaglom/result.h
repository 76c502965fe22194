// Errors as values: every function that can fail on a user's mistake returns a Result.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#if defined(__GNUC__)
#define YAGLOM_API __attribute__((visibility("default")))
#else
#define YAGLOM_API
#endif

namespace yaglom {

/// What went wrong, complete and readable: the caret text of a spec's mistake, or the argument that does not fit.
class YAGLOM_API Error : public std::runtime_error {
public:
  explicit Error(std::string message);
  ~Error() override;
};

/// A value, or the Error that explains why there is none.
///
///     Result<Spec> spec = Spec::parseFile("performer.phi");
///     if (!spec) puts(spec.error().what());
template <typename T>
class [[nodiscard]] Result {
public:
  Result(T value) : state(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return state.index() == 0; }

  /// The value. Throws the Error when there is none.
  T &value() & { return check(), std::get<0>(state); }
  const T &value() const & { return check(), std::get<0>(state); }
  T &&value() && { return check(), std::get<0>(std::move(state)); }

  T &operator*() { return std::get<0>(state); }
  const T &operator*() const { return std::get<0>(state); }
  T *operator->() { return &std::get<0>(state); }
  const T *operator->() const { return &std::get<0>(state); }

  /// The Error; only when there is no value.
  const Error &error() const { return std::get<1>(state); }

private:
  void check() const {
    if (state.index() == 1)
      throw std::get<1>(state);
  }
  std::variant<T, Error> state;
};

/// Success, or the Error.
template <>
class [[nodiscard]] Result<void> {
public:
  Result() = default;
  Result(Error error) : state(std::move(error)) {}
  explicit operator bool() const { return state.index() == 0; }
  void value() const {
    if (state.index() == 1)
      throw std::get<1>(state);
  }
  const Error &error() const { return std::get<1>(state); }

private:
  std::variant<std::monostate, Error> state;
};

} // namespace yaglom
