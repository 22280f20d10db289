#pragma once

#include <conch/detail/api.hpp>

#include <string_view>

namespace conch {

/// Version of the headers: `MAJOR.MINOR.PATCH`. Before 1.0 a minor version may change the
/// interface.
inline constexpr std::string_view version_string = "0.2.0";
inline constexpr int version_major = 0;  ///< Its first number,
inline constexpr int version_minor = 2;  ///< its second,
inline constexpr int version_patch = 0;  ///< and its third.

/// Version of the compiled library. Another one than `version_string` means that a program was
/// compiled with the headers of one installation and linked with the library of another.
/// Zero-terminated, static lifetime.
CONCH_API const char* version() noexcept;

}  // namespace conch
